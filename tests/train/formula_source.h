#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "accrue/data/source.h"

namespace accrue::testing {

/// Samples of one length whose tokens are computed from their numbers.
class FormulaSource : public data::Source {
 public:
  /// The value of token `t` of a sample.
  using Formula = std::function<std::int64_t(std::int64_t sample, std::int64_t t)>;

  FormulaSource(std::int64_t samples, std::int64_t length, std::int64_t vocab, Formula input,
                Formula target)
      : samples_(samples),
        length_(length),
        vocab_(vocab),
        input_(std::move(input)),
        target_(std::move(target)) {}

  std::int64_t size() const override { return samples_; }
  std::int64_t vocab() const override { return vocab_; }
  std::int64_t tokens(std::int64_t) const override { return length_; }
  std::optional<std::int64_t> uniform_tokens() const override { return length_; }
  std::string fingerprint() const override { return "formula"; }
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    batch::MicroBatch micro;
    std::vector<std::int64_t> samples;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto place = static_cast<std::int64_t>(i);
      if (unreadable_.contains(indices[i])) {
        micro.unreadable.push_back({place, "file " + std::to_string(indices[i]) + " is damaged"});
        continue;
      }
      samples.push_back(indices[i]);
      micro.sample_ids.push_back(place);
    }
    if (micro.unreadable.empty()) micro.sample_ids.clear();
    const std::int64_t count = std::ssize(samples);
    micro.inputs = at::empty({count, length_}, at::kLong);
    micro.targets = at::empty({count, length_}, at::kLong);
    micro.tokens = count * length_;
    for (std::int64_t row = 0; row < count; ++row)
      for (std::int64_t t = 0; t < length_; ++t) {
        const std::int64_t sample = samples[static_cast<std::size_t>(row)];
        micro.inputs[row][t] = input_(sample, t);
        micro.targets[row][t] = target_(sample, t);
      }
    return micro;
  }

  /// From now on these samples have no row (Source::fetch).
  void damage(std::set<std::int64_t> samples) { unreadable_ = std::move(samples); }

 private:
  std::set<std::int64_t> unreadable_;
  std::int64_t samples_, length_, vocab_;
  Formula input_, target_;
};

}  // namespace accrue::testing
