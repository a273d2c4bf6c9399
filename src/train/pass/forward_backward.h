#pragma once

#include <cstddef>
#include <vector>

#include "accrue/core/recompute.h"
#include "accrue/models/normalisation.h"
#include "accrue/models/trainable.h"
#include "train/pass/head_sums.h"

namespace accrue::train {

class RecordedPass;  // train/pass/recorded_pass.h

struct PassOptions {
  /// The factor of each head's sum (LossTotals::factors). Empty: the heads' coefficients; the
  /// weights of all heads must then agree in the micro-batch.
  std::vector<double> factors = {};
  std::size_t reference = 0;  ///< the head whose weight is the micro-batch's, with `factors`
  /// The factor of the total before backward; the gradients keep it.
  double loss_scale = 1;
  /// A factor of losses and weights alike: the mean stays, and everything is rounded again.
  double weighting = 1;
  /// Gradients have the same bits in each mode; memory use differs.
  Recompute recompute = Recompute::none;
  /// Losses on a device are not read, so that the host does not wait for it: they are in
  /// PassResult::unread, and count as finite.
  bool leave_losses_on_device = false;
  /// Lets the device repeat a pass that it recorded (run_micro_batch()); null: no recording.
  RecordedPass* recorded = nullptr;
};

/// The result of a micro-batch's forward and backward pass.
struct PassResult {
  double loss_sum = 0;  ///< over all heads, by their factors; without the loss scale
  double weight = 0;
  bool finite = true;  ///< false: the loss was not finite, and backward was not run
  HeadSums heads;
  at::Tensor unread = {};  ///< HeadLosses::Total::unread
};

/// Runs the chain forward, cut between its segments, computes the losses, and runs it backward
/// segment by segment, last first; gradients go into the parameters' open slots. A non-finite loss
/// is found before backward. For an empty micro-batch nothing runs, and the result is 0. A head
/// whose factor is 0 is not run. Throws a usage Error naming LossHead::weight if heads have
/// different weights and no factors define how they share a mean.
///
/// With full recomputation, blocks (Segment::begins_block) run forward without a graph and once
/// more before their backward; the last block, whose backward comes first, runs once. Selective
/// recomputation does the same with each Segment::cheap_graph and informs other segments by
/// ForwardContext::recompute. A second run leaves out its last operation: only the result would
/// need it.
PassResult forward_backward(models::Trainable& model, const batch::MicroBatch& micro,
                            const ForwardContext& context, const PassOptions& options = {});

/// Throws a usage Error with the reason if `model` cannot be trained under `policy` with
/// `recompute`: a model of one segment has no cuts to recompute from, and exact batch normalisation
/// recomputes from its own cuts.
void check_recompute(models::Trainable& model, models::BatchNormPolicy policy, Recompute recompute);

}  // namespace accrue::train
