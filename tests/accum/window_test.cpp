#include "accrue/accum/window.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "accum/window_fixture.h"

namespace accrue::accum {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::kFirst;
using testing::kSecond;
using testing::kThird;
using Fixture = testing::WindowFixture;

TEST(Window, GivesTheMeanGradientOfTheWholeBatch) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    Fixture f(dtype);
    f.window.open(0);
    f.add(kFirst);
    f.add(kSecond);
    f.add(kThird);
    EXPECT_EQ(f.window.weight(), static_cast<double>(f.problem.rows));
    f.expect_mean_gradient_of_everything();
  }
}

TEST(Window, WritesTheFirstContributionOverWhateverWasThere) {
  Fixture f;
  for (int round = 0; round < 2; ++round) {
    for (const auto& entry : f.buffer->entries())
      entry.slot->main.fill_(std::numeric_limits<double>::quiet_NaN());
    f.window.open(round);
    f.add(kFirst);
    f.add(kSecond);
    f.add(kThird);
    f.expect_mean_gradient_of_everything();
  }
}

TEST(Window, ShowsTheSumInGradBetweenMicroBatchesWithoutACopy) {
  Fixture f;
  f.window.open(0);
  EXPECT_FALSE(f.parameter(0).grad().defined());
  f.add(kFirst);
  EXPECT_TRUE(f.parameter(0).grad().is_alias_of(f.buffer->flat()[0]));
  EXPECT_TRUE(at::equal(f.parameter(0).grad(), f.buffer->entries()[0].slot->main));
}

TEST(Window, NamesTheCallExpectedWhenOutOfOrder) {
  Fixture f;
  EXPECT_THAT(error_of([&] { f.window.begin({}); }), HasSubstr("open()"));
  EXPECT_THAT(error_of([&] { f.window.close(); }), HasSubstr("open()"));
  f.window.open(3);
  EXPECT_THAT(error_of([&] { f.window.open(4); }), HasSubstr("close()"));
  EXPECT_THAT(error_of([&] { f.window.commit(1, 1); }), HasSubstr("begin()"));
  EXPECT_THAT(error_of([&] { f.window.abort(MicroStatus::lost, ""); }), HasSubstr("begin()"));
  f.window.begin({});
  EXPECT_THAT(error_of([&] { f.window.begin({}); }), HasSubstr("commit()"));
  EXPECT_THAT(error_of([&] { f.window.close(); }), HasSubstr("commit()"));
  EXPECT_THAT(error_of([&] { f.window.state(); }), HasSubstr("commit()"));
}

/// For a rank whose other ranks have done nothing yet, and report that once.
class OneOfIdleRanks : public Reduction {
 public:
  Outcome reduce(GradientBuffer&, const Share& share) override {
    const bool is_first = std::exchange(is_first_, false);
    return {.verdict = is_first ? Outcome::Verdict::unfinished : Outcome::Verdict::whole,
            .weight = share.ledger.committed_weight()};
  }
  void withdraw() noexcept override {}

 private:
  bool is_first_ = true;
};

TEST(Window, GoesOnWithTheSumsOfAllRanksWhereItWasClosedBeforeItWasWhole) {
  Fixture f;
  OneOfIdleRanks others;
  f.window.set_reduction(&others);
  f.window.open(5);
  EXPECT_THAT(error_of([&] { f.window.take_over({}); }), HasSubstr("is_unfinished()"));
  f.add(kFirst);
  f.add(kSecond);
  const auto sums = f.sums();
  EXPECT_FALSE(f.window.close());
  ASSERT_TRUE(f.window.is_unfinished());
  EXPECT_TRUE(f.window.is_open());
  EXPECT_TRUE(testing::same_bits(sums, f.sums())) << "no step was made of them";
  for (const char* call : {"begin", "close", "state"})
    EXPECT_THAT(error_of([&] {
                  if (call == std::string("begin")) f.window.begin({});
                  if (call == std::string("close")) f.window.close();
                  if (call == std::string("state")) f.window.state();
                }),
                HasSubstr("take_over() or discard()"))
        << call;
  const auto entries = f.window.ledger().entries;
  f.window.take_over({entries.begin(), entries.end()});
  EXPECT_FALSE(f.window.is_unfinished());
  f.add(kThird);
  f.expect_mean_gradient_of_everything();
  f.window.set_reduction(nullptr);
}

TEST(Window, LeavesNothingOfSumsThatAnotherRankGoesOnWith) {
  Fixture f;
  OneOfIdleRanks others;
  f.window.set_reduction(&others);
  f.window.open(5);
  f.add(kFirst);
  EXPECT_FALSE(f.window.close());
  f.window.discard();
  EXPECT_FALSE(f.window.is_unfinished());
  f.window.open(5);
  f.add(kFirst);
  f.add(kSecond);
  f.add(kThird);
  f.expect_mean_gradient_of_everything();
  f.window.set_reduction(nullptr);
}

TEST(Window, RecordsAnAbortBeforeBackwardAndNothingElse) {
  Fixture f;
  f.window.open(0);
  f.add(kFirst);
  const auto before = f.sums();
  f.window.begin({1, kSecond, 0});
  f.window.abort(MicroStatus::quarantined, "the loss is nan");
  EXPECT_TRUE(testing::same_bits(before, f.sums()));
  EXPECT_EQ(f.window.ledger().entries[1].reason, "the loss is nan");
  f.add(kSecond);
  f.add(kThird);
  f.expect_mean_gradient_of_everything();
}

TEST(Window, ReplaysToTheBitsOfAWindowWithoutTheBadMicroBatch) {
  Fixture clean, undone;
  undone.window.set_replay([&](const MicroRef& micro) { return undone.run_again(micro); });
  for (Fixture* f : {&clean, &undone}) {
    f->window.open(0);
    f->add(kFirst);
    f->add(kSecond);
  }
  const auto before = undone.sums();
  undone.add_half_way(kThird);
  EXPECT_TRUE(testing::same_bits(before, undone.sums()));
  clean.add(kThird);
  undone.add(kThird);
  EXPECT_TRUE(testing::same_bits(clean.sums(), undone.sums()));
  EXPECT_EQ(undone.window.ledger().count(MicroStatus::committed), 3);
  EXPECT_EQ(undone.window.weight(), clean.window.weight());
  undone.expect_mean_gradient_of_everything();
}

TEST(Window, IsLostWithoutAReplay) {
  Fixture f;
  f.window.open(0);
  f.add(kFirst);
  f.add_half_way(kSecond);
  EXPECT_TRUE(f.window.is_lost());
  EXPECT_THAT(f.window.ledger().entries[0].reason, HasSubstr("out of memory"));
  EXPECT_FALSE(f.window.close());
}

TEST(Window, NeedsNoReplayWhereNothingWasCommitted) {
  Fixture f;
  f.window.open(0);
  f.add_half_way(kSecond);
  EXPECT_FALSE(f.window.is_lost());
  f.add(kFirst);
  f.add(kSecond);
  f.add(kThird);
  f.expect_mean_gradient_of_everything();
}

TEST(Window, IsLostToAReplayThatFailsOrDiffers) {
  Fixture f;
  f.window.set_replay([](const MicroRef&) -> Loss { throw std::runtime_error("disk gone"); });
  f.window.open(0);
  f.add(kFirst);
  EXPECT_THROW(f.add_half_way(kSecond), std::runtime_error);
  EXPECT_TRUE(f.window.is_lost());
  EXPECT_FALSE(f.window.close());

  f.window.set_replay([&](const MicroRef&) { return f.run_again({0, kThird, 0}); });
  f.window.open(1);
  f.add(kFirst);
  EXPECT_THAT(error_of([&] { f.add_half_way(kSecond); }), HasSubstr("weight of the first time"));
  EXPECT_TRUE(f.window.is_lost());
}

TEST(Window, QuarantinesANonFiniteLossAtCommit) {
  Fixture f;
  f.window.open(0);
  f.window.begin({0, kFirst, 0});
  EXPECT_THAT(error_of([&] { f.window.commit(std::nan(""), 3); }), HasSubstr("finite"));
  EXPECT_EQ(f.window.ledger().count(MicroStatus::quarantined), 1);
  f.window.begin({1, kFirst, 0});
  EXPECT_THAT(error_of([&] { f.window.commit(1, -1); }), HasSubstr(">= 0"));
}

TEST(Window, ClosesToNothingWithoutWeight) {
  Fixture f;
  f.window.open(0);
  EXPECT_FALSE(f.window.close());
  f.window.open(1);
  f.window.begin({});
  f.window.commit(0, 0);
  EXPECT_FALSE(f.window.close());
  EXPECT_FALSE(f.window.is_open());
}

TEST(Window, GivesUnusedParametersAZeroSlotAndNoGrad) {
  const testing::Problem problem = testing::make_problem(3, at::kFloat);
  NamedParameters parameters = problem.parameters;
  parameters.push_back({"unused", at::ones({4}).requires_grad_(true)});
  const auto buffer = std::make_shared<GradientBuffer>(parameters);
  buffer->flat()[0].fill_(5);
  Window window(buffer);
  window.open(0);
  window.begin({});
  torch::autograd::backward({problem.loss(kFirst).sum});
  window.commit(1, 1);
  ASSERT_TRUE(window.close());
  EXPECT_EQ(buffer->entries()[3].slot->main.abs().sum().item<double>(), 0);
  EXPECT_FALSE(parameters[3].tensor.grad().defined());
}

TEST(Window, SumsNarrowGradientsInFp32) {
  const at::Tensor w = at::ones({2}, at::kBFloat16).requires_grad_(true);
  const auto buffer = std::make_shared<GradientBuffer>(NamedParameters{{"w", w}});
  Window window(buffer);
  window.open(0);
  for (int i = 0; i < 300; ++i) {
    window.begin({});
    torch::autograd::backward({w.sum()});
    window.commit(1, 1);
    ASSERT_FALSE(w.grad().defined());
  }
  // A bf16 sum would have stopped at 256.
  EXPECT_EQ(buffer->entries()[0].slot->main[1].item<double>(), 300);
}

TEST(Window, RefusesParametersOfAnotherOpenWindow) {
  Fixture f;
  const auto other = std::make_shared<GradientBuffer>(NamedParameters{{"shared", f.parameter(0)}});
  Window second(other);
  f.window.open(0);
  EXPECT_THAT(error_of([&] { second.open(0); }), HasSubstr("'shared'"));
  f.window.discard();
  second.open(0);
  EXPECT_THAT(error_of([&] { f.window.open(1); }), HasSubstr("'first.weight'"));
  second.discard();
  f.window.open(1);
  f.add(kFirst);
  f.add(kSecond);
  f.add(kThird);
  f.expect_mean_gradient_of_everything();
}

TEST(Window, FreesItsParametersWhenItEnds) {
  Fixture f;
  {
    Window brief(f.buffer);
    brief.open(0);
  }
  f.window.open(0);
  EXPECT_TRUE(f.window.is_open());
}

TEST(Window, ContinuesFromItsStateToTheBit) {
  Fixture whole, stopped, resumed;
  for (Fixture* f : {&whole, &stopped}) {
    f->window.open(5);
    f->add(kFirst);
    f->add(kSecond);
  }
  const WindowState state = stopped.window.state();
  resumed.window.load(state);
  EXPECT_EQ(resumed.window.ledger().window, 5);
  for (Fixture* f : {&whole, &resumed}) f->add(kThird);
  EXPECT_TRUE(testing::same_bits(whole.sums(), resumed.sums()));
  EXPECT_EQ(whole.window.weight(), resumed.window.weight());
  resumed.expect_mean_gradient_of_everything();
}

TEST(Window, RefusesAStateThatDoesNotFit) {
  Fixture f;
  f.window.open(0);
  f.add(kFirst);
  WindowState state = f.window.state();
  EXPECT_THAT(error_of([&] { f.window.load(state); }), HasSubstr("no open window"));
  f.window.discard();
  state.sums[1].tensor = at::zeros({8});
  EXPECT_THAT(error_of([&] { f.window.load(state); }), HasSubstr("'first.bias'"));
  EXPECT_FALSE(f.window.is_open());
}

/// Puts the weight's gradient into its slot itself, like accrue's kernels.
struct SlotLinear : torch::autograd::Function<SlotLinear> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight) {
    context->save_for_backward({input, weight});
    return input.matmul(weight.t());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor input_gradient = gradients[0].matmul(saved[1]);
    const at::Tensor weight_gradient = gradients[0].t().matmul(saved[0]);
    kernels::GradSlot* slot = kernels::open_slot_of(saved[1]);
    if (slot == nullptr) return {input_gradient, weight_gradient};
    slot->fresh ? slot->main.copy_(weight_gradient) : slot->main.add_(weight_gradient);
    slot->done();
    return {input_gradient, at::Tensor()};
  }
};

TEST(Window, SumsKernelsAndForeignOperatorsOnATiedWeight) {
  at::manual_seed(11);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor tied = at::randn({4, 4}, options).requires_grad_(true);
  const at::Tensor x = at::randn({6, 4}, options);
  const auto loss = [&](const at::Tensor& rows, bool kernel_first) {
    const at::Tensor inner = kernel_first ? SlotLinear::apply(rows, tied) : at::linear(rows, tied);
    const at::Tensor hidden = at::tanh(inner);
    const at::Tensor output =
        kernel_first ? at::linear(hidden, tied) : SlotLinear::apply(hidden, tied);
    return output.square().sum();
  };
  const at::Tensor expected = torch::autograd::grad({loss(x, true)}, {tied})[0];
  const auto buffer = std::make_shared<GradientBuffer>(NamedParameters{{"tied", tied}});
  Window window(buffer);
  for (const bool kernel_first : {true, false}) {
    window.open(kernel_first);
    for (const auto& rows : {x.slice(0, 0, 1), x.slice(0, 1, 4), x.slice(0, 4, 6)}) {
      window.begin({});
      torch::autograd::backward({loss(rows, kernel_first)});
      window.commit(1, 1);
    }
    EXPECT_TRUE(testing::close(tied.grad(), expected, at::kDouble, 6 * 4 * 4));
    EXPECT_FALSE(testing::close(tied.grad() * (1 + 1e-9), expected, at::kDouble, 6 * 4 * 4));
    ASSERT_TRUE(window.close());
  }
}

}  // namespace
}  // namespace accrue::accum
