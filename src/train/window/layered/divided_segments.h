#pragma once

#include "accrue/accum/gradient_buffer.h"
#include "distributed/reduce/deferred_reduce.h"
#include "distributed/reduce/parameter_shards.h"
#include "train/window/layered/layered_window.h"

namespace accrue::train {

/// Runs windows of ranks each of which keeps a part of the parameters and sums: brings a segment's
/// parameters before its micro-batches run, and hands its sums over as soon as they are final.
class DividedSegments {
 public:
  /// All are kept by reference. `shards` is null if each rank has everything. Without `reduce` the
  /// sums of a segment are dropped with its parameters, as trials do.
  DividedSegments(const accum::GradientBuffer& buffer, distributed::ParameterShards* shards,
                  distributed::DeferredReduce* reduce)
      : buffer_(buffer), shards_(shards), reduce_(reduce) {}

  /// Makes windows with these options call this object, which has to outlive them.
  void attach_to(LayeredOptions& options);
  /// Drops what other ranks keep; call it when a window is filled or closed.
  void leave();

 private:
  bool sums_are_finite(std::size_t segment) const;

  const accum::GradientBuffer& buffer_;
  distributed::ParameterShards* shards_;
  distributed::DeferredReduce* reduce_;
};

}  // namespace accrue::train
