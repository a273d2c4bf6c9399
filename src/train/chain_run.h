#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "accrue/core/recompute.h"
#include "accrue/models/trainable.h"

namespace accrue::train {

/// One run of a model's chain over a micro-batch, forward and then backward, cut at leaves between
/// its segments. What recomputation runs again is decided by stretches: their inputs alone stay.
class ChainRun {
 public:
  /// `micro` must outlive the run.
  ChainRun(std::vector<models::Segment> segments, const batch::MicroBatch& micro,
           const ForwardContext& context, Recompute recompute);

  models::Activations forward();
  /// `gradients` of what forward() gave, undefined where they are not wanted. To be called once.
  /// Calls `after_segment`, if any, after each segment.
  void backward(models::Activations gradients, const std::function<void()>& after_segment = {});

 private:
  /// A segment's run: its input as a leaf of its own graph, and what it made of it.
  struct Cut {
    models::Activations input, output;
  };
  /// Segments [begin, end) that are kept, or run again, as one.
  struct Stretch {
    std::size_t begin, end;
    bool rerun;
    models::Activations input;  ///< of a stretch to be run again
    std::vector<Cut> cuts;
  };

  static std::vector<Stretch> split(const std::vector<models::Segment>& segments,
                                    Recompute recompute);
  models::Activations run_without_graph(Stretch& stretch, const models::Activations& input) const;
  models::Activations run_with_graph(Stretch& stretch, const models::Activations& input) const;
  ForwardContext context_of(const Stretch& stretch, std::size_t segment) const;

  std::vector<models::Segment> segments_;
  const batch::MicroBatch& micro_;
  ForwardContext context_;
  std::vector<Stretch> stretches_;
};

/// `activations` as leaves of a new graph.
models::Activations as_leaves(const models::Activations& activations);
/// What backward left in leaves; undefined where nothing came.
models::Activations gradients_of(const models::Activations& leaves);

}  // namespace accrue::train
