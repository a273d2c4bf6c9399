#pragma once

#include <vector>

#include "accrue/train/forward_backward.h"

namespace accrue::train {

/// The losses of a model's heads on one output.
class HeadLosses {
 public:
  /// Throws a usage Error where the factors are not as many as the heads.
  HeadLosses(models::Trainable& model, PassOptions options);

  struct Total {
    double sum = 0;  ///< of all heads, by their factors; without the loss scale
    double weight = 0;
    std::vector<double> weights;  ///< of each head
    /// What backward starts from: the heads' sums, each with its factor times the loss scale.
    std::vector<at::Tensor> roots, gradients;
  };
  /// Throws a usage Error naming LossHead::weight where heads have different weights and no factors
  /// say how they share a mean.
  Total total(const models::Activations& output, const batch::MicroBatch& micro,
              const ForwardContext& context) const;

 private:
  double factor_of(std::size_t head) const;
  void expect_one_denominator(const models::LossHead& head, double weight, double first) const;

  std::vector<models::LossHead> heads_;
  PassOptions options_;
};

}  // namespace accrue::train
