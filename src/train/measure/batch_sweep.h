#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/adapt/noise_scale.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// One batch of a sweep, from the shared start to the shared number of tokens.
struct SweptBatch {
  double batch = 0;  ///< in tokens, or samples if they have no tokens
  std::int64_t steps = 0;
  double lr = 0;  ///< the stated one, scaled to this batch
  bool is_finite = true;
  double loss = 0;             ///< at the end: held-out, or of the last quarter of the training
  double seconds = 0;          ///< of the training
  double loss_per_unit = 0;    ///< by how much it fell per million tokens (samples)
  double loss_per_second = 0;  ///< by how much it fell per second
  /// The progress per token that the noise scale predicts: 1 at a batch far below it, 1/2 at it
  /// (arXiv:1812.06162, equation 2.7); absent if noise was not measured.
  std::optional<double> predicted = {};
};

struct BatchSweep {
  bool counts_tokens = true;
  double stated = 0;  ///< the config's batch
  double units = 0;   ///< tokens or samples that each batch was trained on
  double loss_before = 0;
  std::vector<SweptBatch> batches;         ///< from a quarter of the stated one to four times
  std::optional<adapt::NoiseScale> noise;  ///< in tokens or samples, over all steps
  double suggested = 0;
  std::string reason;  ///< for people
};

/// Trains from one start (model.from, or fresh weights) with a quarter, a half, one, two and four
/// times the config's batch on the same number of tokens. The learning rate scales with the batch,
/// by the root for Adam and linearly for SGD, and warms up over a quarter of each training. The
/// suggested batch is the largest whose loss fell by nearly as much as the best one's. If there are
/// few data they are read several times. Throws a usage Error as a run would.
BatchSweep sweep_batch(const Config& config, std::int64_t steps_of_largest = 12);

}  // namespace accrue::train
