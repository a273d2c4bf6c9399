#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/batch/micro_batch.h"

namespace accrue::data {

/// The target of a position without a loss.
inline constexpr std::int64_t ignored_target = -100;

/// The tokens of one sample as the model sees them.
struct Sequence {
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> targets;  ///< as many as inputs; -100 if there is no loss
  float weight = 1;                   ///< the weight of each term of its loss
};

/// Whether a micro-batch is rows of token ids, without columns or a batch made by the program: only
/// these can be taken apart by sources that read rows.
bool is_rows_of_tokens(const batch::MicroBatch& micro);

/// The spans of samples that have a row each, in order of the samples. Their sample_id is left 0,
/// here and in first_fit().
std::vector<SampleSpan> one_a_row(std::span<const std::int64_t> lengths);

/// The spans of samples in rows of at most `capacity` tokens: each sample follows those in the
/// first row with room (first-fit; at most 1.7 times the rows that are needed, Garey, Graham,
/// Johnson, Yao, 1976). A pure function of the lengths, none of which exceeds `capacity`.
std::vector<SampleSpan> first_fit(std::span<const std::int64_t> lengths, std::int64_t capacity);

/// Puts sequence i at spans[i], in rows as short as the longest row allows; the rest is padding.
/// `spans` of the result is left empty.
batch::MicroBatch make_micro_batch(std::span<const Sequence> sequences,
                                   std::span<const SampleSpan> spans);

}  // namespace accrue::data
