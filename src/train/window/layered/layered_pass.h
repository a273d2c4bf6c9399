#pragma once

#include <string>
#include <vector>

#include "train/pass/head_losses.h"
#include "train/window/layered/activation_store.h"
#include "train/window/layered/cut_statistics.h"
#include "train/window/layered/layered_window.h"

namespace accrue::train {

/// A micro-batch of the window; its inputs are stored if the cuts are.
struct LayeredMicroBatch {
  MicroRef ref;
  batch::MicroBatch micro;
  ActivationStore::Kept inputs;
  ForwardContext context;
};

/// A micro-batch to be quarantined.
struct NonFiniteMicroBatch {
  std::size_t place = 0;  ///< its place in the window
  std::string reason;
};

/// One attempt to run a window: forward to the last cut with every micro-batch, then backward. It
/// ends at a segment's step that finds micro-batches that are not finite.
class LayeredPass {
 public:
  /// `too_large`: a contribution on some rank needs larger units of its fixed-point sum, so that
  /// all ranks have to run the passes again.
  enum class Outcome { done, non_finite, interrupted, too_large };

  /// All arguments are kept by reference. `audit` checks all activations and gradients, and the
  /// gradient buffer after every step, so that a gradient that is not finite is found together with
  /// its micro-batch.
  LayeredPass(models::Trainable& model, const accum::GradientBuffer& buffer, double loss_scale,
              const LayeredOptions& options, const std::vector<LayeredMicroBatch>& micro_batches,
              ActivationStore& store, bool audit);

  /// Runs the chain forward; computes no gradient and touches no slot.
  Outcome forward();
  /// Runs backward into the open slots, after forward(). The outcome is `non_finite` without
  /// micro-batches if the sums are not finite, and only an audit could find the one that caused
  /// it.
  Outcome backward();

  const std::vector<NonFiniteMicroBatch>& non_finite() const { return non_finite_; }
  double loss_sum() const { return loss_sum_; }
  double weight() const { return weight_; }
  const HeadSums& heads() const { return heads_; }
  /// Updates running statistics by those of the whole window, if it has them.
  void update_running_statistics() const;

 private:
  /// The window's data at the input of a segment.
  struct Cut {
    std::vector<CutStatistics::KeptActivations> activations, gradients;  ///< by micro-batch
    CutStatistics statistics;  ///< empty if those of micro-batches are used
  };
  /// A segment's input: gradients are taken for `leaves`, and the segment sees `read`.
  struct Entrance {
    models::Activations leaves, read;
  };
  /// Where backward starts.
  struct Seeds {
    std::vector<at::Tensor> roots, gradients;
  };

  Outcome run_forward(std::size_t segment);
  Outcome run_backward(std::size_t segment);
  Entrance enter(std::size_t segment, std::size_t place) const;
  models::Activations run(std::size_t segment, std::size_t place, const Entrance& entrance,
                          const ForwardContext& context) const;
  ForwardContext context_in_backward(std::size_t segment, std::size_t place) const;
  batch::MicroBatch micro_of(std::size_t place) const;
  static bool checks(const Cut& cut);
  void announce(std::size_t segment, bool backward) const;
  /// None if the loss is not finite, and the micro-batch is to be quarantined.
  Seeds seeds_of_loss(std::size_t place, const models::Activations& output);
  Seeds seeds_from_next(std::size_t segment, std::size_t place, const models::Activations& output);
  void keep_gradients(std::size_t segment, std::size_t place, const models::Activations& leaves);

  bool interrupted() const { return options_.interrupted && options_.interrupted(); }
  bool sums_found_finite(std::size_t segment) const;
  void step_done();
  /// `outcome` if a segment's step found such a thing on any rank.
  Outcome agreed(bool found, Outcome outcome = Outcome::non_finite) const;
  Outcome agreed_units() const;

  const accum::GradientBuffer& buffer_;
  const LayeredOptions& options_;
  const std::vector<LayeredMicroBatch>& micro_batches_;
  ActivationStore& store_;
  bool audit_;
  std::vector<models::Segment> segments_;
  HeadLosses losses_;
  std::vector<Cut> cuts_;  ///< by segment
  std::vector<NonFiniteMicroBatch> non_finite_;
  double loss_sum_ = 0, weight_ = 0;
  HeadSums heads_;
  std::int64_t steps_done_ = 0;
};

}  // namespace accrue::train
