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
  /// What each head's sum is multiplied with (LossTotals::factors). Empty: the heads' coefficients;
  /// the weights of all heads must then agree in the micro-batch.
  std::vector<double> factors = {};
  std::size_t reference = 0;  ///< the head whose weight is the micro-batch's, with `factors`
  /// What the total is multiplied with before backward; the gradients stay multiplied.
  double loss_scale = 1;
  /// What losses and weights alike are multiplied with: the mean stays, and all is rounded anew.
  double weighting = 1;
  /// The gradients have the same bits in each mode; what is live in between differs.
  Recompute recompute = Recompute::none;
  /// Losses on a device are not read, so that nobody waits for it: PassResult::unread has them, and
  /// they count as finite.
  bool leave_losses_on_device = false;
  /// Who may have the device repeat a pass that it recorded (run_micro_batch()); null: nobody.
  RecordedPass* recorded = nullptr;
};

/// What became of a micro-batch's forward and backward pass.
struct PassResult {
  double loss_sum = 0;  ///< over all heads, by their factors; without the loss scale
  double weight = 0;
  bool finite = true;  ///< false: the loss was not finite, and backward was not run
  HeadSums heads;
  at::Tensor unread = {};  ///< HeadLosses::Total::unread
};

/// Runs the chain forward, cut between its segments, takes the losses, and runs it backward segment
/// by segment, last first; gradients land in the parameters' open slots. A non-finite loss is found
/// before backward. Nothing runs of an empty micro-batch, and all is 0. A head whose factor is 0 is
/// not run. Throws a usage Error naming LossHead::weight where heads have different weights and no
/// factors say how they share a mean.
///
/// With full recomputation blocks (Segment::begins_block) run forward without a graph and once more
/// before their backward; the last block, whose backward comes first, runs once. Selective
/// recomputation does so with each Segment::cheap_graph and tells other segments by
/// ForwardContext::recompute. A second run leaves out the last operation of what it runs: only its
/// result needs that.
PassResult forward_backward(models::Trainable& model, const batch::MicroBatch& micro,
                            const ForwardContext& context, const PassOptions& options = {});

/// Throws a usage Error with the reason where `model` cannot be trained under `policy` with
/// `recompute`: a model that is one segment has no cuts to recompute from, and exact batch
/// normalisation recomputes from its own.
void check_recompute(models::Trainable& model, models::BatchNormPolicy policy, Recompute recompute);

}  // namespace accrue::train
