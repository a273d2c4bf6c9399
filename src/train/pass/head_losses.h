#pragma once

#include <vector>

#include "train/pass/forward_backward.h"

namespace accrue::train {

/// The losses of a model's heads on one output.
class HeadLosses {
 public:
  /// Throws a usage Error if the factors are not as many as the heads.
  HeadLosses(models::Trainable& model, PassOptions options);

  struct Total {
    double sum = 0;  ///< over all heads, by their factors; without the loss scale
    double weight = 0;
    HeadSums heads;
    /// The sums of the heads that were run, by head, where they were left on a device
    /// (PassOptions::leave_losses_on_device): `sum` and `heads` have 0 for them. Undefined else.
    at::Tensor unread;
    /// What backward starts from: the heads' sums, each with its factor times the loss scale.
    std::vector<at::Tensor> roots, gradients;
  };
  /// Runs the losses. Throws a usage Error naming LossHead::weight where heads have different
  /// weights and no factors say how they share a mean. The output is not to be read after it: a
  /// loss that is the only one may leave its gradient in that memory (ForwardContext::last_reader).
  Total total(const models::Activations& output, const batch::MicroBatch& micro,
              const ForwardContext& context) const;
  /// Puts the values of Total::unread, read by now, where total() left 0 in `heads`; returns their
  /// sum by the heads' factors.
  double fill_in(const at::Tensor& read, HeadSums& heads) const;

 private:
  double factor_of(std::size_t head) const;
  std::size_t losses_run() const;  ///< those whose factor is not 0
  void expect_one_denominator(const models::LossHead& head, double weight, double first) const;

  std::vector<models::LossHead> heads_;
  PassOptions options_;
};

}  // namespace accrue::train
