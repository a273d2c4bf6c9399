#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "accrue/batch/own_batch.h"
#include "accrue/core/forward_context.h"

namespace accrue::batch {

/// A sample that was requested and cannot be used.
struct UnreadableSample {
  std::int64_t sample_id = 0;
  std::string reason;  ///< with the name of its file
};

/// Samples that go through the model together. A sample is one sequence (or image). A pair is two
/// sequences that are never in different micro-batches: its loss is not a sum over sequences.
struct MicroBatch {
  at::Tensor inputs;   ///< [R, T] int64 token ids, or images [B, C, H, W] fp32
  at::Tensor targets;  ///< [R, T] int64 (-100: no loss), or classes [B]
  /// The weight of each term of the loss, in the shape of `targets`, fp32; undefined if each weight
  /// is 1.
  at::Tensor weights;
  std::vector<std::int64_t> sample_ids;  ///< the samples' draw ordinals (epoch * N + position)
  std::int64_t tokens = 0;               ///< inputs without padding; an image counts as one
  /// Positions of the sequences if several share a row (packing); empty: one row each.
  std::vector<SampleSpan> spans;
  /// 2 for pairs: sequence 2i is the chosen one of sample i, sequence 2i + 1 the rejected one.
  std::int64_t sequences_per_sample = 1;
  /// [B, 2] fp64, for pairs: the reference model's log-probabilities of both sequences; undefined
  /// if they were not computed.
  at::Tensor reference;
  /// Samples that were requested and cannot be read; they have no row and no id above.
  std::vector<UnreadableSample> unreadable;
  /// Other columns of the samples by name (data.columns), each with a row [B, ...] per sample; may
  /// include inputs and targets.
  std::map<std::string, at::Tensor> columns;
  /// The samples in a batch type of the program, if their source makes one.
  OwnBatch own;

  /// Whether no sample is left to run: B = 0.
  bool is_empty() const { return inputs.defined() && inputs.size(0) == 0; }
};

/// The key of random numbers in sequence `sequence` of a sample: a unique id.
constexpr std::int64_t sequence_id(std::int64_t sample_id, std::int64_t sequence,
                                   std::int64_t sequences_per_sample) {
  return sample_id * sequences_per_sample + sequence;
}

/// The ids of the sequences, in order.
inline std::vector<std::int64_t> sequence_ids(const MicroBatch& micro) {
  if (micro.sequences_per_sample == 1) return micro.sample_ids;
  std::vector<std::int64_t> ids;
  for (const std::int64_t sample_id : micro.sample_ids)
    for (std::int64_t sequence = 0; sequence < micro.sequences_per_sample; ++sequence)
      ids.push_back(sequence_id(sample_id, sequence, micro.sequences_per_sample));
  return ids;
}

/// The context of a training pass over `micro`.
inline ForwardContext training_context(const MicroBatch& micro, std::uint64_t seed,
                                       std::int64_t window) {
  return {.training = true,
          .seed = seed,
          .window = window,
          .sample_ids = sequence_ids(micro),
          .spans = micro.spans};
}

/// The context of an evaluation of `micro`: nothing in it is random.
inline ForwardContext evaluation_context(const MicroBatch& micro) {
  return {.training = false, .sample_ids = sequence_ids(micro), .spans = micro.spans};
}

}  // namespace accrue::batch
