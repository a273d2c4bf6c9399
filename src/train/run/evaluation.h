#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "accrue/core/observer.h"
#include "accrue/data/source.h"
#include "accrue/models/trainable.h"
#include "train/ranks/ranks.h"

namespace accrue::train {

struct EvaluationOptions {
  std::int64_t micro_batch = 1;
  std::int64_t max_samples = 0;  ///< 0: all
  /// How many samples of a rank pass through a segment before the next begins; fewer than two
  /// micro-batches: each micro-batch passes through the whole model.
  std::int64_t samples_together = 0;
  /// Where their activations are: the folder of a temporary file; empty: in memory.
  std::filesystem::path cut_folder = {};
  /// Called between micro-batches, also between their passes through a segment; true ends the
  /// evaluation early, with no result. If it is true on one of several ranks, none has a result;
  /// the others need not have ended early.
  std::function<bool()> cancelled;
  /// Set if each of several ranks evaluates its share of the samples.
  const Ranks* ranks = nullptr;
  /// Set if each of them keeps a part of the parameters: all then bring the segments together, as
  /// often as the rank with the most samples needs them.
  distributed::ParameterShards* shards = nullptr;
};

/// Mean loss (by tokens, or by pairs) over the first samples of `source`, without dropout and
/// without gradients. Throws a usage Error if no label counts.
std::optional<Evaluation> evaluate_source(models::Trainable& model, const data::Source& source,
                                          const EvaluationOptions& options);

/// The first ten reasons of its unreadable samples.
std::string describe_unreadable(const Evaluation& evaluation);

}  // namespace accrue::train
