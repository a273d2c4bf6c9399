#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "accrue/models/trainable.h"
#include "batch/schedule.h"
#include "data/loader.h"
#include "train/formula_source.h"

namespace accrue::train::testing {

inline constexpr std::int64_t kLossSamples = 12, kLossMicro = 2, kLossLength = 3, kLossVocab = 8;

inline std::int64_t marked_in(const batch::MicroBatch& micro) {
  return std::ranges::count_if(micro.sample_ids, [](std::int64_t id) { return id % 5 < 2; });
}

/// A table with a loss of each token, and one of the marked samples.
class TokensAndMarks : public models::Trainable {
 public:
  explicit TokensAndMarks(std::set<std::int64_t> bad) : bad_(std::move(bad)) {
    at::manual_seed(4);
    table_ = at::randn({kLossVocab, kLossVocab}, at::kDouble).requires_grad_(true);
  }
  NamedParameters parameters() const override { return {{"table", table_}}; }
  std::vector<models::Segment> segments() override {
    return {{"table", [this](const models::Activations&, const batch::MicroBatch& micro,
                             const ForwardContext&) {
               ++passes;
               return models::Activations{at::embedding(table_, micro.inputs)};
             }}};
  }
  std::vector<models::LossHead> losses() override {
    models::LossHead tokens{.name = "tokens"}, marks{.name = "marks"};
    tokens.forward = [this](const auto& x, const batch::MicroBatch& micro, auto&, double) {
      at::Tensor sum = at::cross_entropy_loss(x.at(0).flatten(0, 1), micro.targets.flatten(), {},
                                              at::Reduction::Sum);
      for (const std::int64_t id : micro.sample_ids)
        if (bad_.contains(id)) sum = sum / 0.0;
      return Loss{sum, static_cast<double>(micro.targets.numel())};
    };
    tokens.weight = [](const batch::MicroBatch& micro) {
      return static_cast<double>(micro.targets.numel());
    };
    marks.forward = [](const auto& x, const batch::MicroBatch& micro, auto&, double) {
      at::Tensor sum = at::zeros({}, at::kDouble);
      for (std::size_t row = 0; row < micro.sample_ids.size(); ++row)
        if (micro.sample_ids[row] % 5 < 2)
          sum = sum + x.at(0)[static_cast<std::int64_t>(row)].square().sum();
      return Loss{sum, static_cast<double>(marked_in(micro))};
    };
    marks.weight = [](const batch::MicroBatch& micro) {
      return static_cast<double>(marked_in(micro));
    };
    marks.coefficient = 0.3;
    return {tokens, marks};
  }

  int passes = 0;  ///< forward passes only

 private:
  std::set<std::int64_t> bad_;
  at::Tensor table_;
};

inline data::Loader make_samples() {
  const auto token = [](std::int64_t sample, std::int64_t t) { return (sample * 7 + t) % 8; };
  return {std::make_shared<accrue::testing::FormulaSource>(kLossSamples, kLossLength, kLossVocab,
                                                           token, token),
          batch::Sampler(kLossSamples, batch::Order::sequential, 0)};
}

}  // namespace accrue::train::testing
