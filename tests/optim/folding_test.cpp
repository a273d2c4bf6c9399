// Accumulation inside the optimizer: AdamA and folded SGD.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "folds.h"
#include "support/tolerance.h"

namespace accrue::optim {
namespace {

using accrue::testing::close;
using accrue::testing::relative_error;
using testing::FedWindows;
using testing::flat_parameters;
using testing::groups_of;
using ::testing::HasSubstr;
using testing::Micro;
using testing::random_micros;
using testing::total_weight;
using testing::usage_message;

constexpr double kLr = 0.01, kDecay = 0.1;
constexpr std::int64_t kWindows = 6;

std::unique_ptr<Optimizer> adama(const NamedParameters& p, const StateOptions& state = {}) {
  return make_adama(p, groups_of(p, kDecay), {}, state);
}
std::unique_ptr<Optimizer> folded_sgd(const NamedParameters& p, const StateOptions& state = {}) {
  return make_folded_sgd(p, groups_of(p, kDecay), {}, state);
}

at::Tensor in_double(const at::Tensor& tensor) { return tensor.detach().to(at::kDouble).clone(); }

/// AdamA from the paper's algorithm 1, with AdamW's decay, in double.
class AdamAReference {
 public:
  explicit AdamAReference(const NamedParameters& parameters) {
    for (const auto& [name, tensor] : parameters) {
      values.push_back(in_double(tensor));
      first_.push_back(at::zeros_like(values.back()));
      second_.push_back(at::zeros_like(values.back()));
    }
  }

  void run(const std::vector<Micro>& micros, double total) {
    const AdamOptions o;
    ++step_;
    for (std::size_t i = 0; i < values.size(); ++i) {
      first_[i] *= o.beta1;
      second_[i] *= o.beta2;
      for (const Micro& micro : micros) {
        if (!micro.gradients[i].defined()) continue;
        const at::Tensor g = micro.gradients[i].to(at::kDouble) / total;
        first_[i] += (1 - o.beta1) * g;
        second_[i] += (1 - o.beta2) * g.square();
      }
      const double decay = values[i].dim() >= 2 ? kDecay : 0;
      const at::Tensor m = first_[i] / (1 - std::pow(o.beta1, step_));
      const at::Tensor v = second_[i] / (1 - std::pow(o.beta2, step_));
      values[i] = values[i] * (1 - kLr * decay) - kLr * m / (v.sqrt() + o.eps);
    }
  }
  std::vector<at::Tensor> values;

 private:
  std::vector<at::Tensor> first_, second_;
  double step_ = 0;
};

class Folding : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Folding, ::testing::Values(at::kFloat, at::kDouble));

TEST_P(Folding, AdamAIsThePapersAlgorithm) {
  const NamedParameters parameters = flat_parameters(GetParam());
  AdamAReference reference(parameters), one_gradient(parameters);
  const auto optimizer = adama(parameters);
  FedWindows windows(parameters, {optimizer->fold_target()});
  for (std::int64_t w = 0; w < kWindows; ++w) {
    const std::vector<Micro> micros = random_micros(parameters, w, 1 + w % 4);
    windows.run(*optimizer, w, micros, kLr);
    reference.run(micros, total_weight(micros));
    std::vector<Micro> sum{micros[0]};
    for (std::size_t k = 1; k < micros.size(); ++k)
      for (std::size_t i = 0; i < parameters.size(); ++i)
        sum[0].gradients[i] = sum[0].gradients[i] + micros[k].gradients[i];
    one_gradient.run(sum, total_weight(micros));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(close(parameters[i].tensor, reference.values[i], GetParam(), kWindows))
        << parameters[i].name;
    // The control: the square of the sum, which is AdamW's, is another algorithm.
    EXPECT_FALSE(close(parameters[i].tensor, one_gradient.values[i], GetParam(), kWindows));
  }
}

TEST_P(Folding, AdamAOfOneMicroBatchIsAdamW) {
  const NamedParameters folded = flat_parameters(GetParam()), summed = flat_parameters(GetParam());
  const auto optimizer = adama(folded);
  const auto adamw = make_adam(summed, groups_of(summed, kDecay), {});
  FedWindows folding(folded, {optimizer->fold_target()}), summing(summed);
  for (std::int64_t w = 0; w < kWindows; ++w) {
    const std::vector<Micro> micros = random_micros(folded, w, 1);
    folding.run(*optimizer, w, micros, kLr);
    summing.run(*adamw, w, micros, kLr);
  }
  for (std::size_t i = 0; i < folded.size(); ++i)
    EXPECT_TRUE(close(folded[i].tensor, summed[i].tensor, GetParam(), kWindows));
}

TEST_P(Folding, SgdIsSgdOverTheSum) {
  const NamedParameters folded = flat_parameters(GetParam()), summed = flat_parameters(GetParam()),
                        plain = flat_parameters(GetParam());
  const auto optimizer = folded_sgd(folded);
  const auto sgd = make_sgd(summed, groups_of(summed, kDecay), {});
  const auto other = make_sgd(plain, groups_of(plain, kDecay), {.momentum = 0.89});
  FedWindows folding(folded, {optimizer->fold_target()}), summing(summed), control(plain);
  for (std::int64_t w = 0; w < kWindows; ++w) {
    std::vector<Micro> micros = random_micros(folded, w, 1 + w % 4);
    if (w == 3)
      for (Micro& micro : micros) micro.gradients[1].reset();  // not used in this window
    folding.run(*optimizer, w, micros, kLr);
    summing.run(*sgd, w, micros, kLr);
    control.run(*other, w, micros, kLr);
  }
  for (std::size_t i = 0; i < folded.size(); ++i) {
    EXPECT_TRUE(close(folded[i].tensor, summed[i].tensor, GetParam(), 4 * kWindows));
    EXPECT_FALSE(close(plain[i].tensor, summed[i].tensor, GetParam(), 4 * kWindows));
  }
}

/// GPT-2's embedding takes a gradient as the head and one as the embedding.
TEST(FoldingSharedParameters, AreSquaredAsOne) {
  const NamedParameters parameters = flat_parameters(at::kFloat);
  AdamAReference reference(parameters), apart(parameters);
  const auto optimizer = adama(parameters);
  FedWindows windows(parameters, {optimizer->fold_target(), {"matrix"}});
  const std::vector<Micro> micros = random_micros(parameters, 0, 3);
  const std::vector<Micro> second = random_micros(parameters, 1, 3);
  const double total = total_weight(micros);
  windows.window.open(0, 1, total);
  std::vector<Micro> sums, parts;
  for (std::size_t k = 0; k < micros.size(); ++k) {
    const at::NoGradGuard no_grad;
    windows.window.begin({});
    windows.contribute(0, micros[k].gradients[0]);
    windows.contribute(2, micros[k].gradients[2]);
    windows.contribute(1, micros[k].gradients[1]);
    windows.contribute(0, second[k].gradients[0]);
    EXPECT_EQ(windows.window.commit(0, micros[k].weight), MicroStatus::committed);
    sums.push_back(micros[k]);
    sums.back().gradients[0] = micros[k].gradients[0] + second[k].gradients[0];
    parts.push_back(micros[k]);
    parts.push_back({{second[k].gradients[0], {}, {}}});
  }
  optimizer->step(std::move(windows.window.close()).value(), kLr);
  reference.run(sums, total);
  apart.run(parts, total);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(close(parameters[i].tensor, reference.values[i], at::kFloat, 6));
  EXPECT_FALSE(close(parameters[0].tensor, apart.values[0], at::kFloat, 6));
}

TEST(FoldingSharedParameters, HaveToBeDeclared) {
  const NamedParameters parameters = flat_parameters(at::kFloat);
  const auto optimizer = adama(parameters);
  FedWindows windows(parameters, {optimizer->fold_target()});
  const at::NoGradGuard no_grad;
  windows.window.open(0, 1, 1);
  windows.window.begin({});
  windows.contribute(1, at::ones({37}));
  EXPECT_THAT(usage_message([&] { windows.contribute(1, at::ones({37})); }),
              HasSubstr("a second one to 'bias'"));
  windows.window.abort(MicroStatus::lost, "a second contribution");
  EXPECT_TRUE(windows.window.is_torn());
  // SGD takes them as they come.
  const NamedParameters others = flat_parameters(at::kFloat);
  const auto sgd = folded_sgd(others);
  FedWindows of_sgd(others, {sgd->fold_target()});
  of_sgd.window.open(0, 1, 1);
  of_sgd.window.begin({});
  of_sgd.contribute(1, at::ones({37}));
  of_sgd.contribute(1, at::ones({37}));
  EXPECT_EQ(of_sgd.window.commit(0, 1), MicroStatus::committed);
}

// Windows that fail.

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
  // The last checkpoint mends it.
  failing.optimizer->load_state(failing.before);
  EXPECT_FALSE(window.is_torn());
  failing.expect_unchanged();
  window.open(2, 1, 1);
}

TEST(FailingFoldedWindow, IsLostByWhatWasKeptOnlyWhereOthersAreFolded) {
  Failing failing;
  // "matrix" is kept to the commit and looked at before any of what is kept is folded.
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

/// The announced weight stays the denominator: what was left out counts as a zero gradient.
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

// What is refused.

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
  // Another optimizer does not take it, and this one no other gradient.
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

// State and memory.

TEST(FoldingState, InBf16ContinuesToTheBitAndIsCloseToFp32s) {
  const auto run = [](const StateOptions& options, bool restart) {
    const NamedParameters parameters = flat_parameters(at::kFloat);
    std::unique_ptr<Optimizer> optimizer = adama(parameters, options);
    auto windows =
        std::make_unique<FedWindows>(parameters, accum::FoldInto{optimizer->fold_target()});
    for (std::int64_t w = 0; w < kWindows; ++w) {
      if (w == 3 && restart) {
        NamedParameters saved;
        for (const auto& [name, tensor] : optimizer->state())
          saved.push_back({name, tensor.clone()});
        optimizer = adama(parameters, options);
        optimizer->load_state(saved);
        windows = nullptr;
        windows =
            std::make_unique<FedWindows>(parameters, accum::FoldInto{optimizer->fold_target()});
      }
      windows->run(*optimizer, w, random_micros(parameters, w, 4), kLr);
    }
    return parameters;
  };
  const StateOptions bf16{.precision = StatePrecision::bf16, .seed = 3};
  const NamedParameters whole = run(bf16, false), resumed = run(bf16, true), exact = run({}, false);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(at::equal(resumed[i].tensor, whole[i].tensor));
    EXPECT_FALSE(at::equal(exact[i].tensor, whole[i].tensor));
    // Each step moves an element by about lr; a moment errs by 2^-8 a fold at most.
    EXPECT_LE((exact[i].tensor - whole[i].tensor).abs().max().item<double>(),
              kWindows * kLr * 4 * 0x1p-6);
  }
}

TEST(FoldingMemory, IsScratchOfTheLargestParameter) {
  NamedParameters parameters;
  for (int i = 0; i < 20; ++i)
    parameters.push_back({"w" + std::to_string(i), at::zeros({64, 64}).requires_grad_(true)});
  const auto optimizer = adama(parameters);
  const std::int64_t one = 64 * 64 * 4;
  EXPECT_EQ(accum::GradientBuffer(parameters, {optimizer->fold_target()}).bytes(), one);
  EXPECT_EQ(accum::GradientBuffer(parameters, {optimizer->fold_target(), {"w3"}}).bytes(), 2 * one);
  EXPECT_EQ(accum::GradientBuffer(parameters).bytes(), 20 * one);  // the control
}

/// For i.i.d. micro-batch gradients of mean mu and standard deviation sigma, AdamA's second moment
/// is (mu^2 + sigma^2) / (K mu^2 + sigma^2) of Adam's (docs/numerics.md).
TEST(AdamASecondMoment, IsSmallerByTheSignalToNoiseRatioOfMicroBatches) {
  constexpr std::int64_t kMicros = 16, kElements = 20'000;
  const auto second_moment = [&](double mu, double sigma, bool folded) {
    const NamedParameters parameters{{"w", at::zeros({kElements}).requires_grad_(true)}};
    const std::unique_ptr<Optimizer> optimizer =
        folded ? adama(parameters) : make_adam(parameters, groups_of(parameters, 0), {});
    std::unique_ptr<FedWindows> windows =
        folded ? std::make_unique<FedWindows>(parameters, accum::FoldInto{optimizer->fold_target()})
               : std::make_unique<FedWindows>(parameters);
    std::vector<Micro> micros = random_micros(parameters, 0, kMicros);
    for (Micro& micro : micros) {
      micro.weight = 1;
      micro.gradients[0] = micro.gradients[0] * sigma + mu;
    }
    windows->run(*optimizer, 0, micros, kLr);
    for (const auto& [name, tensor] : optimizer->state())
      if (name == "exp_avg_sq.w") return tensor.mean().item<double>();
    return 0.0;
  };
  for (const auto& [mu, sigma] : {std::pair{0.0, 1.0}, {0.25, 1.0}, {1.0, 1.0}, {1.0, 0.0}}) {
    const double expected = (mu * mu + sigma * sigma) / (kMicros * mu * mu + sigma * sigma);
    EXPECT_NEAR(second_moment(mu, sigma, true) / second_moment(mu, sigma, false), expected,
                0.05 * expected)
        << mu << ' ' << sigma;
  }
}

}  // namespace
}  // namespace accrue::optim
