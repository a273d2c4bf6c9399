// What other code may and may not do while a window is open.
#include <gmock/gmock.h>

#include "accrue/accum/window.h"
#include "accum/window_fixture.h"

namespace accrue::accum {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::kFirst;
using testing::kSecond;
using testing::kThird;
using Fixture = testing::WindowFixture;

TEST(Window, RefusesADetachingZeroGradOnceAndGoesOn) {
  Fixture f;
  f.window.open(0);
  f.add(kFirst);
  for (const auto& p : f.problem.parameters) p.tensor.mutable_grad().reset();
  EXPECT_THAT(error_of([&] { f.window.begin({}); }),
              ::testing::AllOf(HasSubstr("zero_grad()"), HasSubstr("the window goes on")));
  f.add(kSecond);
  f.add(kThird);
  f.parameter(2).mutable_grad() = at::zeros_like(f.parameter(2));
  EXPECT_THAT(error_of([&] { f.window.close(); }),
              ::testing::AllOf(HasSubstr("zero_grad()"), HasSubstr("second.weight")));
  f.expect_mean_gradient_of_everything();
}

TEST(Window, LosesTheWindowToAZeroGradInPlace) {
  Fixture f;
  f.window.open(0);
  f.add(kFirst);
  f.parameter(1).grad().detach_();
  f.parameter(1).grad().zero_();
  EXPECT_THAT(error_of([&] { f.window.begin({}); }),
              ::testing::AllOf(HasSubstr("zero_grad(false)"), HasSubstr("'first.bias'"),
                               HasSubstr("window is lost")));
  EXPECT_TRUE(f.window.is_lost());
  f.add(kSecond);
  EXPECT_EQ(f.window.ledger().count(MicroStatus::lost), 2);
  EXPECT_FALSE(f.window.close());
  EXPECT_FALSE(f.parameter(0).grad().defined());
}

TEST(Window, LosesTheWindowToAStepInside) {
  Fixture f;
  f.window.open(0);
  f.add(kFirst);
  {
    const at::NoGradGuard no_grad;
    f.parameter(2).sub_(f.parameter(2).grad(), 0.1);
  }
  EXPECT_THAT(error_of([&] { f.window.close(); }),
              ::testing::AllOf(HasSubstr("step()"), HasSubstr("'second.weight'"),
                               HasSubstr("window is lost")));
  EXPECT_FALSE(f.window.close());
  f.window.open(1);
  f.add(kFirst);
  f.add(kSecond);
  f.add(kThird);
  f.expect_mean_gradient_of_everything();
}

TEST(Window, RefusesABackwardOutsideItsMicroBatches) {
  Fixture f;
  f.window.open(0);
  torch::autograd::backward({f.problem.loss(kFirst).sum});
  EXPECT_THAT(error_of([&] { f.window.begin({}); }), HasSubstr("outside"));
  f.add(kFirst);
  torch::autograd::backward({f.problem.loss(kFirst).sum});
  EXPECT_THAT(error_of([&] { f.window.begin({}); }), HasSubstr("window is lost"));
}

TEST(Window, TakesZeroGradAndStepAfterClosingAsHarmless) {
  Fixture f;
  for (int round = 0; round < 2; ++round) {
    f.window.open(round);
    f.add(kFirst);
    f.add(kSecond);
    f.add(kThird);
    f.expect_mean_gradient_of_everything();
    const at::NoGradGuard no_grad;
    for (const auto& p : f.problem.parameters) {
      p.tensor.sub_(p.tensor.grad(), 0.01);
      if (round == 0) p.tensor.mutable_grad().reset();
    }
  }
}

TEST(Window, RefusesAGradientThatDidNotArrive) {
  Fixture f;
  f.window.open(0);
  f.window.begin({});
  f.parameter(1).mutable_grad() = at::ones_like(f.parameter(1));
  EXPECT_THAT(error_of([&] { f.window.commit(1, 1); }), HasSubstr("'first.bias'"));
  EXPECT_EQ(f.window.ledger().count(MicroStatus::lost), 1);
  EXPECT_FALSE(f.window.is_lost());
}

/// The state left by a kernel that runs out of memory while it adds to a gradient.
void fail_half_way(kernels::GradSlot& slot) {
  slot.contribute().into.mutable_data_ptr<float>()[0] += 1;
}

TEST(Window, UndoesAKernelThatFailedHalfWay) {
  Fixture f;
  f.window.set_replay([&](const MicroRef& micro) { return f.run_again(micro); });
  f.window.open(0);
  f.add(kFirst);
  f.window.begin({1, kSecond, 0});
  fail_half_way(*f.buffer->entries()[0].slot);
  f.window.abort(MicroStatus::lost, "out of memory");
  f.add(kSecond);
  f.add(kThird);
  f.expect_mean_gradient_of_everything();
}

TEST(Window, IsLostToAKernelThatFailedHalfWayWithoutAReplay) {
  Fixture f;
  f.window.open(0);
  f.window.begin({0, kFirst, 0});
  fail_half_way(*f.buffer->entries()[0].slot);
  f.window.abort(MicroStatus::lost, "out of memory");
  EXPECT_FALSE(f.window.is_lost()) << "nothing was in the slot yet";
  f.add(kFirst);
  f.window.begin({1, kSecond, 0});
  fail_half_way(*f.buffer->entries()[0].slot);
  f.window.abort(MicroStatus::lost, "out of memory");
  EXPECT_TRUE(f.window.is_lost());
}

TEST(Window, RefusesToCommitWhatAKernelFailedIn) {
  Fixture f;
  f.window.set_replay([&](const MicroRef& micro) { return f.run_again(micro); });
  f.window.open(0);
  f.add(kFirst);
  f.window.begin({1, kSecond, 0});
  fail_half_way(*f.buffer->entries()[0].slot);
  EXPECT_THAT(error_of([&] { f.window.commit(1, 1); }),
              ::testing::AllOf(HasSubstr("'first.weight'"), HasSubstr("abort()")));
  f.add(kSecond);
  f.add(kThird);
  f.expect_mean_gradient_of_everything();
}

}  // namespace
}  // namespace accrue::accum
