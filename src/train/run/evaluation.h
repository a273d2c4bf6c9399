#pragma once

#include <cstdint>
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
  /// Called between micro-batches; true ends the evaluation early, with no result.
  std::function<bool()> cancelled;
  /// Set if each of several ranks evaluates its share of the samples.
  const Ranks* ranks = nullptr;
  /// Set if each of them keeps a part of the parameters: all then bring the segments together, as
  /// often as the rank with the most micro-batches needs them.
  distributed::ParameterShards* shards = nullptr;
};

/// Mean loss (by tokens, or by pairs) over the first samples of `source`, without dropout and
/// without gradients. Throws a usage Error if no label counts.
std::optional<Evaluation> evaluate_source(models::Trainable& model, const data::Source& source,
                                          const EvaluationOptions& options);

/// The first ten reasons of its unreadable samples.
std::string describe_unreadable(const Evaluation& evaluation);

}  // namespace accrue::train
