#pragma once

#include <cstdint>
#include <string>

#include "accrue/models/trainable.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// The tensors that a window in layered order keeps, and the memory for them.
struct ActivationNeeds {
  std::int64_t bytes_per_sample = 0;  ///< activations at the cuts, and their gradients
  std::int64_t window_samples = 0;
  std::int64_t available_bytes = 0;
};

struct ActivationPlacement {
  bool in_file = false;
  std::int64_t bytes = 0;  ///< the whole window's
  std::string reason;
};

/// Chooses memory if the whole window takes at most a quarter of what is free, and a mapped file
/// otherwise. A pure function.
ActivationPlacement decide_activation_placement(const ActivationNeeds& needs);

/// Decides for a workload's window, by the machine's free memory and by the memory budget if one is
/// set.
ActivationPlacement choose_activation_placement(const Workload& work, std::int64_t window_samples);

/// The bytes of one sample at the inputs of all segments but the first, and once more those of the
/// largest cut, whose gradients exist beside them. Runs it forward, by the running statistics of
/// batch normalisations.
std::int64_t cut_bytes_per_sample(models::Trainable& model, const batch::MicroBatch& one_sample);

}  // namespace accrue::train
