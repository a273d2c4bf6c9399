#pragma once

#include <memory>
#include <vector>

#include "accrue/core/parameter.h"
#include "accrue/train/config.h"

namespace accrue::proof {

/// The optimizer of a config by torch::optim, in fp64, with clipping and weight decay as
/// configured, without any of accrue's code. Not for AdamA.
class ReferenceOptimizer {
 public:
  /// `trained` are stepped, and hold the values after each step in their own precision.
  ReferenceOptimizer(const train::OptimConfig& config, const NamedParameters& trained);
  ~ReferenceOptimizer();
  ReferenceOptimizer(const ReferenceOptimizer&) = delete;
  ReferenceOptimizer& operator=(const ReferenceOptimizer&) = delete;

  /// `sums` / `weight` are the mean gradients, in order of the parameters.
  void step(const std::vector<at::Tensor>& sums, double weight);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::proof
