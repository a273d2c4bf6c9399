// Failures that end a folded window without a step, and refusals of folding.
#include <gmock/gmock.h>

#include <limits>

#include "folds.h"

namespace accrue::optim {
namespace {

using testing::adama;
using testing::FedWindows;
using testing::flat_parameters;
using testing::folded_sgd;
using testing::groups_of;
using ::testing::HasSubstr;
using testing::kLr;
using testing::Micro;
using testing::random_micros;
using testing::total_weight;
using testing::usage_message;

struct Failing {
  Failing()
      : parameters(flat_parameters(at::kFloat)),
        optimizer(adama(parameters)),
        windows(parameters, {optimizer->fold_target(), {"matrix"}}),
        micros(random_micros(parameters, 0, 3)) {
    windows.run(*optimizer, 0, micros, kLr);  // moments that are not zero
    before = saved();
    windows.window.open(1, 1, total_weight(micros));
  }

  NamedParameters saved() const {
    NamedParameters copies;
    for (const auto& [name, tensor] : optimizer->state()) copies.push_back({name, tensor.clone()});
    return copies;
  }
  void expect_unchanged() const {
    const NamedParameters after = saved();
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(at::equal(after[i].tensor, before[i].tensor)) << before[i].name;
  }
  Micro poisoned(std::size_t parameter) const {
    Micro micro = micros[0];
    micro.gradients[parameter] = micro.gradients[parameter].clone();
    micro.gradients[parameter].view(-1)[5] = std::numeric_limits<float>::quiet_NaN();
    return micro;
  }

  NamedParameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  FedWindows windows;
  std::vector<Micro> micros;
  NamedParameters before;
};

TEST(FailingFoldedWindow, ThatFoldedNothingChangesNothing) {
  Failing failing;
  EXPECT_EQ(failing.windows.window.close(), std::nullopt);
  EXPECT_FALSE(failing.windows.window.is_torn());
  failing.expect_unchanged();
}

TEST(FailingFoldedWindow, LeavesOutAMicroBatchFoundBeforeAnythingOfItWasFolded) {
  Failing failing;
  // "large" comes first: found before anything was folded.
  EXPECT_EQ(failing.windows.add(failing.poisoned(2)), MicroStatus::quarantined);
  EXPECT_FALSE(failing.windows.window.is_lost());
  failing.expect_unchanged();
  failing.windows.window.discard();
  EXPECT_FALSE(failing.windows.window.is_torn());
}

TEST(FailingFoldedWindow, IsLostAndTornWhereAPartWasFolded) {
  Failing failing;
  // "large" is folded, then "bias" is not finite.
  EXPECT_EQ(failing.windows.add(failing.poisoned(1)), MicroStatus::quarantined);
  accum::Window& window = failing.windows.window;
  EXPECT_TRUE(window.is_lost());
  EXPECT_TRUE(window.is_torn());
  EXPECT_THAT(window.lost_reason(), HasSubstr("the gradient of 'bias' is not finite"));
  EXPECT_EQ(window.ledger().entries[0].status, MicroStatus::quarantined);
  EXPECT_EQ(window.close(), std::nullopt);
  EXPECT_TRUE(window.is_torn());
  EXPECT_THROW(failing.optimizer->state(), Error);
  EXPECT_THAT(usage_message([&] { window.open(2, 1, 1); }), HasSubstr("load_state()"));
  // The last checkpoint repairs it.
  failing.optimizer->load_state(failing.before);
  EXPECT_FALSE(window.is_torn());
  failing.expect_unchanged();
  window.open(2, 1, 1);
}

TEST(FailingFoldedWindow, IsLostByWhatWasKeptOnlyWhereOthersAreFolded) {
  Failing failing;
  // "matrix" is kept until the commit and checked before any kept gradient is folded.
  Micro only_matrix = failing.poisoned(0);
  for (const std::size_t other : {1, 2}) only_matrix.gradients[other].reset();
  EXPECT_EQ(failing.windows.add(only_matrix), MicroStatus::quarantined);
  EXPECT_FALSE(failing.windows.window.is_lost());
  failing.expect_unchanged();
  EXPECT_EQ(failing.windows.add(failing.poisoned(0)), MicroStatus::quarantined);
  EXPECT_TRUE(failing.windows.window.is_torn());
}

TEST(FailingFoldedWindow, CanRetryWhatRanOutOfMemoryBeforeAnythingWasFolded) {
  Failing failing;
  accum::Window& window = failing.windows.window;
  window.begin({.index = 0});
  {
    const at::NoGradGuard no_grad;
    failing.windows.contribute(0, failing.micros[0].gradients[0]);  // kept
  }
  window.abort(MicroStatus::lost, "out of memory");
  EXPECT_FALSE(window.is_lost());
  failing.expect_unchanged();
  for (const Micro& micro : failing.micros) failing.windows.add(micro);
  failing.optimizer->step(std::move(window.close()).value(), kLr);
  Failing undisturbed;
  for (const Micro& micro : undisturbed.micros) undisturbed.windows.add(micro);
  undisturbed.optimizer->step(std::move(undisturbed.windows.window.close()).value(), kLr);
  for (std::size_t i = 0; i < failing.parameters.size(); ++i)
    EXPECT_TRUE(at::equal(failing.parameters[i].tensor, undisturbed.parameters[i].tensor));
}

TEST(FailingFoldedWindow, IsTornWhereItIsDroppedInTheMiddle) {
  Failing failing;
  failing.windows.add(failing.micros[0]);
  EXPECT_FALSE(failing.windows.window.is_torn());
  failing.windows.window.discard();
  EXPECT_TRUE(failing.windows.window.is_torn());
}

/// The announced weight stays the denominator: the omitted part counts as a zero gradient.
TEST(FailingFoldedWindow, DividesByTheAnnouncedWeightAfterAQuarantine) {
  for (const bool is_adama : {true, false}) {
    const NamedParameters parameters = flat_parameters(at::kFloat);
    const NamedParameters reference = flat_parameters(at::kFloat);
    const auto make = is_adama ? adama : folded_sgd;
    const auto optimizer = make(parameters, {}), expected = make(reference, {});
    FedWindows windows(parameters, {optimizer->fold_target()});
    FedWindows zero(reference, {expected->fold_target()});
    std::vector<Micro> micros = random_micros(parameters, 0, 3);
    windows.window.open(0, 1, total_weight(micros));
    windows.add(micros[0]);
    windows.window.begin({.index = 1});
    windows.window.abort(MicroStatus::quarantined, "its loss is not finite");
    windows.add(micros[2]);
    accum::MeanGradient gradient = std::move(windows.window.close()).value();
    EXPECT_EQ(gradient.weight(), micros[0].weight + micros[2].weight);
    optimizer->step(std::move(gradient), kLr);
    for (at::Tensor& g : micros[1].gradients) g = at::zeros_like(g);
    zero.run(*expected, 0, micros, kLr);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(at::equal(parameters[i].tensor, reference[i].tensor));
  }
}

// Refusals.

TEST(FoldedWindow, NeedsItsTotalWeight) {
  const NamedParameters parameters = flat_parameters(at::kFloat);
  const auto optimizer = adama(parameters);
  FedWindows windows(parameters, {optimizer->fold_target()});
  EXPECT_THAT(usage_message([&] { windows.window.open(0); }), HasSubstr("received none"));
  EXPECT_THAT(usage_message([&] { windows.window.open(0, 2, 1); }), HasSubstr("no loss scale"));
  windows.window.open(0, 1, 10);
  windows.add(random_micros(parameters, 0, 1)[0]);
  EXPECT_THAT(usage_message([&] { windows.window.close(); }), HasSubstr("10.0"));
  EXPECT_TRUE(windows.window.is_torn());
}

TEST(FoldedWindow, HasNoGradientToRead) {
  const NamedParameters parameters = flat_parameters(at::kFloat);
  const auto optimizer = adama(parameters);
  FedWindows windows(parameters, {optimizer->fold_target()});
  const std::vector<Micro> micros = random_micros(parameters, 0, 2);
  windows.window.open(0, 1, total_weight(micros));
  for (const Micro& micro : micros) windows.add(micro);
  EXPECT_THAT(usage_message([&] { windows.window.state(); }), HasSubstr("saving between windows"));
  accum::MeanGradient gradient = std::move(windows.window.close()).value();
  EXPECT_THAT(usage_message([&] { gradient.norm(); }), HasSubstr("no values to read"));
  EXPECT_THAT(usage_message([&] { gradient.clip(1); }), HasSubstr("optim.clip"));
  EXPECT_THAT(usage_message([&] { gradient.materialize(); }), HasSubstr("no values to read"));
  EXPECT_THAT(usage_message([&] { gradient.source(0); }), HasSubstr("no values to read"));
  // Another optimizer does not accept it, and this one accepts no other gradient.
  const auto sgd = make_sgd(parameters, groups_of(parameters, 0), {});
  EXPECT_THROW(sgd->step(std::move(gradient), kLr), Error);
}

TEST(FoldedWindow, IsRefusedByAnOptimizerOfOthers) {
  const NamedParameters parameters = flat_parameters(at::kFloat),
                        others = flat_parameters(at::kFloat);
  const auto optimizer = adama(parameters);
  EXPECT_THAT(usage_message([&] { FedWindows(others, {optimizer->fold_target()}); }),
              HasSubstr("one without 'matrix'"));
  EXPECT_THAT(usage_message([&] {
                FedWindows(parameters, {optimizer->fold_target(), {"wte"}});
              }),
              HasSubstr("'wte', which is none"));
  EXPECT_EQ(make_adam(parameters, groups_of(parameters, 0), {})->fold_target(), nullptr);
  FedWindows summed(parameters);
  summed.window.open(0);
  summed.add(random_micros(parameters, 0, 1)[0]);
  EXPECT_THAT(usage_message([&] { optimizer->step(*summed.window.close(), kLr); }),
              HasSubstr("a window that folded into this optimizer"));
}

TEST(FoldedWindow, IsRefusedByAnOptimizerThatItDidNotFoldInto) {
  const NamedParameters parameters = flat_parameters(at::kFloat);
  const auto optimizer = adama(parameters), other = adama(parameters);
  const std::vector<Micro> micros = random_micros(parameters, 0, 1);
  for (const std::shared_ptr<accum::FoldTarget>& target :
       {std::shared_ptr<accum::FoldTarget>(), other->fold_target()}) {
    FedWindows windows(parameters, {target});
    EXPECT_THAT(usage_message([&] { windows.run(*optimizer, 0, micros, kLr); }),
                HasSubstr("a window that folded into this optimizer"));
  }
  FedWindows(parameters, {optimizer->fold_target()}).run(*optimizer, 0, micros, kLr);
}

TEST(FoldingOptimizer, RefusesWhatItCannotFoldInto) {
  const NamedParameters parameters = flat_parameters(at::kFloat);
  const auto groups = groups_of(parameters, 0);
  const StateOptions codes{.precision = StatePrecision::int8};
  EXPECT_THAT(usage_message([&] { make_adama(parameters, groups, {}, codes); }),
              HasSubstr("rounded to nearest"));
  EXPECT_THAT(usage_message([&] { make_folded_sgd(parameters, groups, {.momentum = 0}); }),
              HasSubstr("nothing to fold into"));
  EXPECT_THAT(usage_message([&] { make_adama(parameters, groups, {.decoupled_decay = false}); }),
              HasSubstr("decoupled"));
  const NamedParameters turned = testing::make_parameters(at::kFloat);
  EXPECT_THAT(usage_message([&] { make_adama(turned, groups_of(turned, 0), {}); }),
              HasSubstr("'turned'"));
}

}  // namespace
}  // namespace accrue::optim
