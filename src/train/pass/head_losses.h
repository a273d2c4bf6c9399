#pragma once

#include <vector>

#include "train/pass/forward_backward.h"

namespace accrue::train {

/// The losses of a model's heads on one output.
class HeadLosses {
 public:
  /// Throws a usage Error if the number of factors is not that of the heads.
  HeadLosses(models::Trainable& model, PassOptions options);

  struct Total {
    double sum = 0;  ///< over all heads, by their factors; without the loss scale
    double weight = 0;
    HeadSums heads;
    /// The sums of the heads that were run, by head, if left on a device (leave_losses_on_device):
    /// `sum` and `heads` then have 0 for them. Undefined otherwise.
    at::Tensor unread;
    /// The start of backward: the heads' sums, each with its factor times the loss scale.
    std::vector<at::Tensor> roots, gradients;
  };
  /// Runs the losses. Throws a usage Error naming LossHead::weight if heads have different weights
  /// and no factors define how they share a mean. Do not read the output afterwards: a single loss
  /// may write its gradient into that memory (ForwardContext::last_reader).
  Total total(const models::Activations& output, const batch::MicroBatch& micro,
              const ForwardContext& context) const;
  /// Writes the values of Total::unread, read meanwhile, into `heads`, where total() left 0;
  /// returns their sum by the heads' factors.
  double fill_in(const at::Tensor& read, HeadSums& heads) const;

 private:
  double factor_of(std::size_t head) const;
  std::size_t losses_run() const;  ///< the number whose factor is not 0
  void expect_one_denominator(const models::LossHead& head, double weight, double first) const;

  std::vector<models::LossHead> heads_;
  PassOptions options_;
};

}  // namespace accrue::train
