// Accumulation inside the optimizer: AdamA and folded SGD.
#include <gmock/gmock.h>

#include <cmath>

#include "folds.h"
#include "support/tolerance.h"

namespace accrue::optim {
namespace {

using accrue::testing::close;
using accrue::testing::relative_error;
using testing::adama;
using testing::FedWindows;
using testing::flat_parameters;
using testing::folded_sgd;
using testing::groups_of;
using ::testing::HasSubstr;
using testing::kDecay;
using testing::kLr;
using testing::Micro;
using testing::random_micros;
using testing::total_weight;
using testing::usage_message;

constexpr std::int64_t kWindows = 6;

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
    // The control: AdamW's square of the sum is a different algorithm.
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
  // SGD accepts them in any order.
  const NamedParameters others = flat_parameters(at::kFloat);
  const auto sgd = folded_sgd(others);
  FedWindows of_sgd(others, {sgd->fold_target()});
  of_sgd.window.open(0, 1, 1);
  of_sgd.window.begin({});
  of_sgd.contribute(1, at::ones({37}));
  of_sgd.contribute(1, at::ones({37}));
  EXPECT_EQ(of_sgd.window.commit(0, 1), MicroStatus::committed);
}

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
    // Each step moves an element by about lr; a moment errs by at most 2^-8 per fold.
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

/// For i.i.d. micro-batch gradients with mean mu and standard deviation sigma, AdamA's second
/// moment is (mu^2 + sigma^2) / (K mu^2 + sigma^2) times Adam's (docs/numerics.md).
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
