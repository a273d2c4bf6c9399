#pragma once

#include <cstddef>
#include <vector>

#include "accrue/core/recompute.h"
#include "accrue/models/trainable.h"

namespace accrue::train {

/// One run of a model's chain, or of consecutive segments of it, over a micro-batch, forward and
/// then backward, cut at leaves between its segments. Groups of segments decide what recomputation
/// runs again: only their inputs are kept.
class ChainRun {
 public:
  enum class Backward {
    at_once,  ///< follows forward(): the last group is kept, as running it again gains nothing
    later,    ///< other micro-batches run in between
  };

  /// `micro` must outlive the run.
  ChainRun(std::vector<models::Segment> segments, const batch::MicroBatch& micro,
           const ForwardContext& context, Recompute recompute,
           Backward backward = Backward::at_once);

  /// Runs the chain on the first segment's `input`, which is empty if that segment reads the
  /// micro-batch.
  models::Activations forward(models::Activations input = {});
  /// Takes the gradients of forward()'s result and returns those of its input; both may be
  /// undefined if nothing needs them. Call it once.
  models::Activations backward(models::Activations gradients);

 private:
  /// A segment's run: its input as a leaf of a graph, and its output.
  struct Cut {
    models::Activations input, output;
  };
  /// Segments [begin, end) that are kept, or run again, together.
  struct RecomputeGroup {
    std::size_t begin, end;
    bool rerun;
    models::Activations input;  ///< kept for a group that will be run again
    std::vector<Cut> cuts;
  };

  static std::vector<RecomputeGroup> split(const std::vector<models::Segment>& segments,
                                           Recompute recompute, Backward backward);
  models::Activations run_without_graph(RecomputeGroup& group,
                                        const models::Activations& input) const;
  models::Activations run_with_graph(RecomputeGroup& group, const models::Activations& input) const;
  ForwardContext context_of(const RecomputeGroup& group, std::size_t segment) const;

  std::vector<models::Segment> segments_;
  const batch::MicroBatch& micro_;
  ForwardContext context_;
  std::vector<RecomputeGroup> groups_;
};

/// `activations` as leaves of a new graph.
models::Activations as_leaves(const models::Activations& activations);
bool any_defined(const models::Activations& gradients);
/// The gradients that backward left in leaves; undefined for leaves that none reached.
models::Activations gradients_of(const models::Activations& leaves);

}  // namespace accrue::train
