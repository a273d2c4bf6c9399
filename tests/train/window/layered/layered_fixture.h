#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "accrue/models/gpt2.h"
#include "train/driven_runner.h"
#include "train/formula_source.h"

/// Windows of one model in two runners, whose sums are compared.
namespace accrue::train::testing {

inline constexpr std::int64_t kLayeredSamples = 13, kLayeredLength = 8, kLayeredVocab = 31,
                              kLayeredClasses = 4, kLayeredWindow = 3;

/// Five micro-batches of unequal size.
inline WindowRequest five_micro_batches() {
  return {.index = kLayeredWindow,
          .micro_batches = {{0, 3}, {3, 5}, {5, 8}, {8, 11}, {11, kLayeredSamples}}};
}

/// Text in which some labels are ignored.
class LayeredText : public accrue::testing::FormulaSource {
 public:
  LayeredText()
      : FormulaSource(
            kLayeredSamples, kLayeredLength, kLayeredVocab,
            [](std::int64_t sample, std::int64_t t) {
              return (sample * 11 + t * t * 5) % kLayeredVocab;
            },
            [](std::int64_t sample, std::int64_t t) {
              return t < sample % 4 ? -100 : (sample * 3 + t) % kLayeredVocab;
            }) {}
};

/// Images of 8 x 8 pixels; those of the samples in `bad` are not finite.
class LayeredImages : public LayeredText {
 public:
  explicit LayeredImages(std::set<std::int64_t> bad = {}) : bad_(std::move(bad)) {}
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    batch::MicroBatch micro{.inputs = at::empty({count, 1, 8, 8}),
                            .targets = at::empty({count}, at::kLong),
                            .tokens = count};
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int64_t sample = indices[static_cast<std::size_t>(row)];
      const double step = 0.1 * static_cast<double>(sample + 1);
      micro.inputs[row] = at::sin(at::arange(64, at::kFloat) * step).view({1, 8, 8});
      if (bad_.contains(sample)) micro.inputs[row].fill_(std::numeric_limits<float>::quiet_NaN());
      micro.targets[row] = sample % kLayeredClasses;
    }
    return micro;
  }

 private:
  std::set<std::int64_t> bad_;
};

/// With dropout, and a head that is tied to the embedding.
inline std::unique_ptr<models::Trainable> tied_gpt2() {
  return std::make_unique<models::Gpt2>(models::Gpt2Options{.layers = 2,
                                                            .heads = 2,
                                                            .width = 16,
                                                            .context = kLayeredLength,
                                                            .vocab = kLayeredVocab,
                                                            .dropout = 0.1});
}

/// A model with a window in a runner.
template <class R>
struct RunnerOn {
  RunnerOn(std::unique_ptr<models::Trainable> made, std::shared_ptr<const data::Source> source,
           accum::Accumulation accumulation = accum::Accumulation::fp32, RunnerOptions options = {},
           memory::Recovery* recovery = nullptr)
      : model(std::move(made)),
        window(std::make_shared<accum::GradientBuffer>(model->parameters(), accumulation, 5)),
        loader(source, batch::Sampler(source->size(), batch::Order::sequential, 0)),
        runner(*model, window, loader, 1, std::move(options), recovery) {}

  /// Sums of gradients, and buffers after them.
  std::vector<at::Tensor> left() const {
    std::vector<at::Tensor> result;
    for (const auto& entry : window.buffer()->entries()) result.push_back(entry.slot->main.clone());
    for (const NamedParameter& buffer : model->buffers()) result.push_back(buffer.tensor.clone());
    return result;
  }

  std::unique_ptr<models::Trainable> model;
  accum::Window window;
  data::Loader loader;
  DrivenRunner<R> runner;
};

inline bool have_same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = at::equal(a[i], b[i]);
  return same;
}

}  // namespace accrue::train::testing
