#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/models/torch_module.h"
#include "accrue/models/trainable.h"
#include "support/tolerance.h"
#include "train/pass/forward_backward.h"
#include "train/window/layered/layered_window.h"

namespace accrue::train::testing {

inline batch::MicroBatch slice(const batch::MicroBatch& all, batch::Range range) {
  batch::MicroBatch part;
  part.inputs = all.inputs.slice(0, range.begin, range.end);
  part.targets = all.targets.slice(0, range.begin, range.end);
  if (all.weights.defined()) part.weights = all.weights.slice(0, range.begin, range.end);
  part.sample_ids.assign(all.sample_ids.begin() + range.begin, all.sample_ids.begin() + range.end);
  part.tokens = range.size();
  return part;
}

inline batch::MicroBatch random_samples(at::IntArrayRef sizes, std::int64_t classes) {
  at::manual_seed(5);
  batch::MicroBatch all;
  all.inputs = at::randn(sizes) + 0.5;
  all.targets = at::randint(classes, {sizes[0]}, at::kLong);
  for (std::int64_t i = 0; i < sizes[0]; ++i) all.sample_ids.push_back(1000 + 3 * i);
  return all;
}

/// Gradient sums by parameter, and buffers, after a window.
struct Result {
  std::map<std::string, at::Tensor> gradients, buffers;
  double loss_sum = 0, weight = 0;
};

inline void copy_buffers(const models::Trainable& model, Result& result) {
  for (const auto& [name, tensor] : model.buffers())
    result.buffers[name] = tensor.to(at::kDouble).clone();
}

inline Result collect(const models::Trainable& model, const accum::Window& window) {
  Result result;
  for (const auto& entry : window.buffer()->entries())
    result.gradients[entry.name] =
        entry.slot->fresh ? at::zeros_like(entry.slot->main) : entry.slot->main.clone();
  copy_buffers(model, result);
  result.loss_sum = window.ledger().committed_loss_sum();
  result.weight = window.weight();
  return result;
}

/// Makes the same model on each call.
using MakeModel = std::function<std::unique_ptr<models::Trainable>()>;
constexpr std::uint64_t seed = 7;
constexpr std::int64_t window_index = 2;
constexpr std::int64_t exact_samples = 9, exact_classes = 4;

/// Uses libtorch's own autograd and batch norm over the whole batch in one graph.
inline Result full_batch(const MakeModel& make, const batch::MicroBatch& all) {
  const std::unique_ptr<models::Trainable> model = make();
  const ForwardContext context = batch::training_context(all, seed, window_index);
  const Loss loss =
      model->losses().at(0).forward(models::run_segments(*model, all, context), all, context, 1);
  std::vector<at::Tensor> leaves;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model->parameters()) {
    if (!tensor.requires_grad()) continue;
    leaves.push_back(tensor);
    names.push_back(name);
  }
  const auto gradients = torch::autograd::grad({loss.sum}, leaves);
  Result result;
  for (std::size_t i = 0; i < leaves.size(); ++i) result.gradients[names[i]] = gradients[i];
  copy_buffers(*model, result);
  result.loss_sum = loss.sum.item<double>();
  result.weight = loss.weight;
  return result;
}

inline LayeredOptions with_window_statistics(LayeredOptions options = {}) {
  options.window_statistics = true;
  return options;
}

/// A model, its window and a run over `all` with the window's statistics.
struct Exact {
  std::unique_ptr<models::Trainable> model;
  accum::Window window;
  LayeredWindow exact;
  batch::MicroBatch all;

  Exact(const MakeModel& make, batch::MicroBatch samples, LayeredOptions options = {})
      : model(make()),
        window(std::make_shared<accum::GradientBuffer>(model->parameters())),
        exact(
            *model, window, [this](batch::Range range) { return slice(all, range); }, seed,
            with_window_statistics(std::move(options))),
        all(std::move(samples)) {
    window.set_replay([this](const MicroRef&) { return exact.replay(); });
  }
  ~Exact() { window.discard(); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;

  LayeredRun run(const std::vector<batch::Range>& parts) {
    window.open(window_index);
    return exact.run(window_index, parts);
  }
};

inline Result exact_window(const MakeModel& make, const batch::MicroBatch& all,
                           const std::vector<batch::Range>& parts, LayeredOptions options = {}) {
  Exact exact(make, all, std::move(options));
  exact.run(parts);
  return collect(*exact.model, exact.window);
}

inline Result exact_window(const MakeModel& make, const batch::MicroBatch& all, std::int64_t micro,
                           LayeredOptions options = {}) {
  return exact_window(make, all, batch::split({0, all.inputs.size(0)}, micro), std::move(options));
}

/// Each micro-batch with its own statistics, as in a plain loop.
inline Result micro_statistics(const MakeModel& make, const batch::MicroBatch& all,
                               std::int64_t micro) {
  const std::unique_ptr<models::Trainable> model = make();
  accum::Window window(std::make_shared<accum::GradientBuffer>(model->parameters()));
  window.open(window_index);
  for (const batch::Range& range : batch::split({0, all.inputs.size(0)}, micro)) {
    const batch::MicroBatch part = slice(all, range);
    window.begin({.sample_ids = part.sample_ids});
    const PassResult pass =
        forward_backward(*model, part, batch::training_context(part, seed, window_index));
    window.commit(pass.loss_sum, pass.weight);
  }
  const Result result = collect(*model, window);
  window.discard();
  return result;
}

/// The largest relative error of a gradient.
inline double gradient_error(const Result& actual, const Result& expected) {
  EXPECT_EQ(actual.gradients.size(), expected.gradients.size());
  double scale = 0;  // a gradient that is zero except for rounding is measured by the others
  for (const auto& [name, gradient] : expected.gradients)
    scale = std::max(scale, gradient.abs().max().item<double>());
  double worst = 0;
  for (const auto& [name, gradient] : expected.gradients) {
    const double own = gradient.abs().max().item<double>();
    const double difference = (actual.gradients.at(name) - gradient).abs().max().item<double>();
    if (!std::isfinite(difference)) return HUGE_VAL;
    worst = std::max(worst, difference / std::max(own, 1e-3 * scale));
  }
  return worst;
}

inline double buffer_error(const Result& actual, const Result& expected) {
  EXPECT_EQ(actual.buffers.size(), expected.buffers.size());
  double worst = 0;
  for (const auto& [name, buffer] : expected.buffers)
    worst = std::max(worst, accrue::testing::relative_error(actual.buffers.at(name), buffer));
  return worst;
}

inline void expect_same_bits(const Result& actual, const Result& expected) {
  for (const auto& [name, gradient] : expected.gradients)
    EXPECT_TRUE(at::equal(actual.gradients.at(name), gradient)) << name;
  for (const auto& [name, buffer] : expected.buffers)
    EXPECT_TRUE(at::equal(actual.buffers.at(name), buffer)) << name;
  EXPECT_EQ(actual.loss_sum, expected.loss_sum);
  EXPECT_EQ(actual.weight, expected.weight);
}

}  // namespace accrue::train::testing
