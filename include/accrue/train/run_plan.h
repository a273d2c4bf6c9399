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

/// The plan of a config on this machine, with the reasons for decisions.
struct RunPlan {
  std::int64_t parameters = 0;
  std::int64_t train_samples = 0;
  std::int64_t val_samples = 0;
  std::int64_t batch_samples = 0;  ///< of a full window; a mean if samples differ in length
  std::int64_t batch_tokens = 0;   ///< counted or averaged alike; 0 if samples have none (images)
  double tokens_per_step = 0;      ///< over the run; 0 if samples have none
  bool uneven = false;             ///< samples differ in length, so windows differ slightly
  std::int64_t micro_batch = 0;    ///< in samples, on this rank
  std::int64_t micro_batches = 0;  ///< of a full window, on all ranks
  EffectiveBatch effective;        ///< a full window, by rank
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
  Recompute recompute = Recompute::none;
  std::optional<bool> accelerate;  ///< whether accrue runs the operations of a foreign model
  std::string micro_reason;        ///< for this micro-batch and recomputation
  /// The choice of this rank's trials, with the alternatives; null if no trials were needed.
  std::shared_ptr<const memory::Plan> trials;
  bool cuts_in_file = false;  ///< windows in layered order keep activations in run.out
  std::string cuts_reason;    ///< why activations are kept there or in memory; empty without cuts
  /// Decisions about the data and about the model from which training starts, one sentence
  /// each.
  std::vector<std::string> remarks;
};

}  // namespace accrue::train
