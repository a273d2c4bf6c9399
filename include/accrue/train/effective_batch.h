#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accrue::train {

/// A rank's share of a full batch, which it runs in micro-batches; the last one may be short.
struct RankBatch {
  std::int64_t samples = 0;  ///< may be 0
  std::int64_t micro_batch = 1;
  std::int64_t accumulation_steps() const { return (samples + micro_batch - 1) / micro_batch; }
  bool operator==(const RankBatch&) const = default;
};

/// The effective batch of one optimizer step, with its factors: micro-batch x accumulation steps x
/// ranks, if all of these are equal.
struct EffectiveBatch {
  std::vector<RankBatch> by_rank;  ///< the ranks that share the batch; not empty
  std::int64_t tokens = 0;         ///< 0 if samples have no tokens
  /// Which of the two varies from batch to batch, if samples differ in length. A batch stated in
  /// tokens has a varying number of samples (its value here is a mean, and `tokens` the most); any
  /// other has a varying number of tokens (`tokens` is a mean).
  bool samples_vary = false, tokens_vary = false;

  std::int64_t samples() const;
  /// The largest micro-batch, and the most accumulation steps, of any rank.
  std::int64_t micro_batch() const;
  std::int64_t accumulation_steps() const;
  /// Whether the batch is the product of micro_batch(), accumulation_steps() and the ranks.
  bool is_product() const;
  /// The number of ranks without a sample of the batch.
  std::int64_t idle_ranks() const;
};

/// Divides a batch like a run before it knows the speed of its ranks: into equal shares in whole
/// micro-batches, with the micro-batch size of each rank.
EffectiveBatch divide_batch(std::int64_t samples, const std::vector<std::int64_t>& micro_batches);

/// "8 samples x 4 accumulation steps x 2 ranks = 64 samples, 65,536 tokens"; if the batch is not a
/// product, the sum: "3 x 8 + 6 = 30 samples in 4 accumulation steps".
std::string in_words(const EffectiveBatch& batch);
/// "8 x 4 x 2 = 64 samples"; if the batch is not a product, "30 samples".
std::string in_short(const EffectiveBatch& batch);

}  // namespace accrue::train
