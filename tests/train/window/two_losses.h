#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "accrue/kernels/cross_entropy.h"
#include "accum/poison.h"
#include "support/tolerance.h"
#include "train/driven_runner.h"
#include "train/formula_source.h"
#include "train/window/micro_batch_runner.h"

/// A model of two losses with separate denominators, and its windows in a runner.
namespace accrue::train::testing {

using accrue::testing::Poison;
using Tensors = std::vector<at::Tensor>;

inline constexpr std::int64_t kWindowSamples = 16, kWindowLength = 5, kWindowVocab = 8,
                              kWindowWidth = 4;

/// Samples of unequal length; every third is "rated".
class WindowSamples : public accrue::testing::FormulaSource {
 public:
  WindowSamples()
      : FormulaSource(
            kWindowSamples, kWindowLength, kWindowVocab,
            [](std::int64_t sample, std::int64_t t) { return (sample * 7 + t * 3) % kWindowVocab; },
            [](std::int64_t sample, std::int64_t t) {
              return t <= sample % kWindowLength ? (sample + t * t) % kWindowVocab : -100;
            }) {}
};

inline bool is_rated(std::int64_t sample) { return sample % 3 == 0; }

inline double rated_count(const batch::MicroBatch& micro) {
  return static_cast<double>(std::ranges::count_if(micro.sample_ids, is_rated));
}

inline double label_count(const batch::MicroBatch& micro) {
  return static_cast<double>((micro.targets != -100).sum().item<std::int64_t>());
}

/// Adds 0 to a loss; the gradient of `input` is infinite if the upstream one exceeds the limit, as
/// in a narrow type.
struct OverflowAbove : torch::autograd::Function<OverflowAbove> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            double limit) {
    context->save_for_backward({input});
    context->saved_data["limit"] = limit;
    return at::zeros({}, input.options());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor input = context->get_saved_variables()[0];
    const bool overflows = gradients[0].item<double>() > context->saved_data["limit"].toDouble();
    const double value = overflows ? std::numeric_limits<double>::infinity() : 0;
    return {at::full_like(input, value), at::Tensor()};
  }
};

/// An embedding, a layer, and two losses: cross-entropy of each token and a rating of some samples.
class TwoLosses : public models::Trainable {
 public:
  TwoLosses() {
    at::manual_seed(9);
    const auto make = [&](const char* name, at::IntArrayRef sizes) {
      parameters_.push_back({name, at::randn(sizes, at::kDouble).requires_grad_(true)});
      return parameters_.back().tensor;
    };
    embedding = make("embedding", {kWindowVocab, kWindowWidth});
    middle = make("middle", {kWindowWidth, kWindowWidth});
    head = make("head", {kWindowVocab, kWindowWidth});
    rating = make("rating", {kWindowWidth});
  }
  NamedParameters parameters() const override { return parameters_; }
  std::vector<models::Segment> segments() override {
    return {{"embed",
             [this](const models::Activations&, const batch::MicroBatch& micro,
                    const ForwardContext& context) {
               contexts.push_back(context);
               return models::Activations{at::embedding(embedding, micro.inputs)};
             }},
            {"middle",
             [this](const models::Activations& x, const batch::MicroBatch&, const ForwardContext&) {
               return models::Activations{at::tanh(at::linear(x.at(0), middle))};
             }}};
  }
  std::vector<models::LossHead> losses() override {
    std::vector<models::LossHead> heads;
    heads.push_back(
        {.name = "tokens",
         .forward = [this](const auto& x, const auto& micro, auto&, double gradient_scale) {
           return tokens(x.at(0), micro, gradient_scale);
         }});
    heads.push_back(
        {.name = "rating", .forward = [this](const auto& x, const auto& micro, auto&, double) {
           return rate(x.at(0), micro);
         }});
    if (weights_known) {
      heads[0].weight = label_count;
      heads[1].weight = rated_count;
    }
    heads[0].coefficient = 0.5;
    heads[1].coefficient = 2;
    if (one_loss) heads.pop_back();
    return heads;
  }

  Tensors leaves() const {
    Tensors leaves;
    for (const NamedParameter& parameter : parameters_) leaves.push_back(parameter.tensor);
    return leaves;
  }

  at::Tensor embedding, middle, head, rating;
  bool weights_known = true, one_loss = false;
  double miscounted = 0;
  double overflow_above = std::numeric_limits<double>::infinity();
  std::set<std::int64_t> bad_losses, bad_gradients;
  std::vector<ForwardContext> contexts;

 private:
  Loss tokens(const at::Tensor& x, const batch::MicroBatch& micro, double gradient_scale) {
    Loss loss = kernels::linear_cross_entropy(x, head, micro.targets, copy_,
                                              {.gradient_scale = gradient_scale});
    if (overflow_above < 1e9) loss.sum = loss.sum + OverflowAbove::apply(middle, overflow_above);
    for (const std::int64_t id : micro.sample_ids) {
      if (bad_losses.contains(id)) loss.sum = loss.sum * std::numeric_limits<double>::quiet_NaN();
      if (bad_gradients.contains(id)) loss.sum = loss.sum + Poison::apply(middle);
    }
    return loss;
  }
  Loss rate(const at::Tensor& x, const batch::MicroBatch& micro) const {
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (std::size_t row = 0; row < micro.sample_ids.size(); ++row)
      if (is_rated(micro.sample_ids[row]))
        sum = sum + x[static_cast<std::int64_t>(row)].mean(0).dot(rating).square();
    return {sum, rated_count(micro) + miscounted};
  }

  NamedParameters parameters_;
  kernels::PreparedWeight copy_;
};

/// Windows of 16 samples of a model (TwoLosses or a derived one) with a MicroBatchRunner.
template <class Model = TwoLosses>
struct WindowRunnerFixtureOf {
  explicit WindowRunnerFixtureOf(RunnerOptions options = {},
                                 accum::Accumulation accumulation = accum::Accumulation::fp32)
      : window(std::make_shared<accum::GradientBuffer>(model.parameters(), accumulation, 5)),
        runner(model, window, loader, 1, std::move(options)) {}

  Tensors gradients(std::optional<accum::MeanGradient> gradient) const {
    if (!gradient) return {};
    gradient->materialize();
    Tensors result;
    for (const auto& entry : window.buffer()->entries()) result.push_back(entry.slot->main.clone());
    return result;
  }
  WindowRun run(std::int64_t micro) { return runner.run(3, {0, kWindowSamples}, micro); }
  /// One uncut graph, without slots: Σ c S / W over samples [0, 16).
  Tensors reference() {
    const batch::MicroBatch all = loader.fetch({0, kWindowSamples});
    const ForwardContext context = batch::training_context(all, 1, 3);
    models::Activations x;
    for (const models::Segment& segment : model.segments()) x = segment.forward(x, all, context);
    at::Tensor total = at::zeros({}, at::kDouble);
    for (const models::LossHead& head : model.losses()) {
      const Loss loss = head.forward(x, all, context, 1);
      total = total + loss.sum * (head.coefficient / loss.weight);
    }
    return torch::autograd::grad({total}, model.leaves(), {}, false, false, true);
  }

  Model model;
  accum::Window window;
  std::shared_ptr<WindowSamples> samples = std::make_shared<WindowSamples>();
  data::Loader loader{samples, batch::Sampler(kWindowSamples, batch::Order::sequential, 0)};
  DrivenRunner<MicroBatchRunner> runner;
};
using WindowRunnerFixture = WindowRunnerFixtureOf<>;

inline void expect_equal(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(accrue::testing::relative_error(actual[i], expected[i]), 1e-12);
}

inline void expect_same_bits(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(actual[i], expected[i]));
}

}  // namespace accrue::train::testing
