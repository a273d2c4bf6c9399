#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accrue::train {

/// A rank's part of a full batch, which it runs in micro-batches; the last one may be short.
struct RankBatch {
  std::int64_t samples = 0;  ///< may be 0
  std::int64_t micro_batch = 1;
  std::int64_t accumulation_steps() const { return (samples + micro_batch - 1) / micro_batch; }
  bool operator==(const RankBatch&) const = default;
};

/// What one optimizer step learns from, in the factors that other systems state: micro-batch x
/// accumulation steps x ranks, where all of these are equal.
struct EffectiveBatch {
  std::vector<RankBatch> by_rank;  ///< of those that share the batch; not empty
  std::int64_t tokens = 0;         ///< 0 where samples have none
  /// Where samples differ in length one of both varies from batch to batch: of a batch in tokens
  /// its samples, which are a mean then, and `tokens` the most; else its tokens, a mean.
  bool samples_vary = false, tokens_vary = false;

  std::int64_t samples() const;
  /// The largest, and the most, of any rank.
  std::int64_t micro_batch() const;
  std::int64_t accumulation_steps() const;
  /// Whether it is the product of micro_batch(), accumulation_steps() and the ranks.
  bool is_product() const;
  /// How many have no part of it.
  std::int64_t idle_ranks() const;
};

/// Divides it the way a run does until it knows how fast its ranks are: equal parts in whole
/// micro-batches, of which each rank runs its own size.
EffectiveBatch divide_batch(std::int64_t samples, const std::vector<std::int64_t>& micro_batches);

/// "8 samples x 4 accumulation steps x 2 ranks = 64 samples, 65,536 tokens"; where it is no
/// product, the sum: "3 x 8 + 6 = 30 samples in 4 accumulation steps".
std::string in_words(const EffectiveBatch& batch);

}  // namespace accrue::train
