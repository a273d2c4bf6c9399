#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/recompute.h"
#include "accrue/train/effective_batch.h"

namespace accrue::memory {
struct Plan;
}

namespace accrue::train {

/// What a config comes to on this machine, with the reason of what was decided.
struct RunPlan {
  std::int64_t parameters = 0;
  std::int64_t train_samples = 0;
  std::int64_t val_samples = 0;
  std::int64_t batch_samples = 0;  ///< of a full window; the mean where samples differ in length
  std::int64_t batch_tokens = 0;   ///< counted or averaged alike; 0 if samples have none (images)
  double tokens_per_step = 0;      ///< over the run; 0 if samples have none
  bool uneven = false;             ///< samples differ in length, so windows differ a little
  std::int64_t micro_batch = 0;    ///< in samples, on this rank
  std::int64_t micro_batches = 0;  ///< of a full window, on all ranks
  EffectiveBatch effective;        ///< what a full window is, by rank
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
  Recompute recompute = Recompute::none;
  std::optional<bool> accelerate;  ///< whether accrue does the operations of a model not its own
  std::string micro_reason;        ///< why this micro-batch and recomputation
  /// What this rank's trials chose, with what they chose from; null if none were needed.
  std::shared_ptr<const memory::Plan> trials;
  bool cuts_in_file = false;  ///< exact batch normalisation keeps activations in run.out
  std::string cuts_reason;    ///< why the activations lie there or in memory; empty without them
  /// What was decided about the data and about the model that training starts from, a sentence
  /// each.
  std::vector<std::string> remarks;
};

}  // namespace accrue::train
