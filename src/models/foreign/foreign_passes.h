#pragma once

#include <memory>
#include <vector>

#include "accrue/models/compute.h"
#include "accrue/models/trainable.h"
#include "kernels/foreign/accelerated_scope.h"

namespace accrue::models {

/// The passes of a model that is independent of accrue, run in its kernels or unchanged; in bf16 or
/// fp16 by the rules of libtorch's autocasting, except that a segment's output is fp32, and losses
/// are computed without it. Each segment and each loss is a separate pass with separately numbered
/// dropouts: a segment that is run again alone finds its masks.
class ForeignPasses {
 public:
  explicit ForeignPasses(Compute compute) : compute_(compute) {}

  /// Throws what Accelerated throws.
  void accelerate(bool wanted, const NamedParameters& parameters);

  std::vector<Segment> of(std::vector<Segment> segments) const;
  std::vector<LossHead> of(std::vector<LossHead> losses) const;
  /// Those that accrue's guarantees do not cover: without the dropouts whose masks it makes.
  std::vector<ForeignLayer> beyond_reach(std::vector<ForeignLayer> layers) const;
  AcceleratedCalls calls() const;

 private:
  Compute compute_;
  std::shared_ptr<kernels::AcceleratedModel> model_;  ///< null: they run unchanged
};

}  // namespace accrue::models
