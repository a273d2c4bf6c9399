#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/batch/micro_batch.h"

namespace accrue::data {

/// The target of a position whose loss is not taken.
inline constexpr std::int64_t ignored_target = -100;

/// The tokens of one sample as a model sees them.
struct Sequence {
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> targets;  ///< as many as inputs; -100 if no loss is taken
  float weight = 1;                   ///< what each term of its loss counts
};

/// Whether a micro-batch is rows of token ids alone, without columns or a batch of the program's
/// own: what sources that look into rows can take apart.
bool is_rows_of_tokens(const batch::MicroBatch& micro);

/// The spans of samples that have a row each, in order of the samples. Their sample_id is left 0,
/// here and in first_fit().
std::vector<SampleSpan> one_a_row(std::span<const std::int64_t> lengths);

/// The spans of samples in rows of at most `capacity` tokens: each sample goes behind those in the
/// first row that has room (first-fit; at most 1.7 times the rows that are needed, Garey, Graham,
/// Johnson, Yao, 1976). A pure function of the lengths, none of which exceeds `capacity`.
std::vector<SampleSpan> first_fit(std::span<const std::int64_t> lengths, std::int64_t capacity);

/// Puts sequence i where spans[i] says, in rows as short as the longest row allows; the rest is
/// padding. `spans` of the result is left empty.
batch::MicroBatch make_micro_batch(std::span<const Sequence> sequences,
                                   std::span<const SampleSpan> spans);

}  // namespace accrue::data
