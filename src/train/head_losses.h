#pragma once

#include <vector>

#include "accrue/train/forward_backward.h"

namespace accrue::train {

/// The losses of a model's heads on one output, as the one that is differentiated.
class HeadLosses {
 public:
  /// Throws a usage Error where the factors are not as many as the heads.
  HeadLosses(models::Trainable& model, PassOptions options);

  struct Total {
    at::Tensor sum;  ///< of all heads, by their factors; without the loss scale
    double weight = 0;
    std::vector<double> weights;  ///< of each head
  };
  /// Throws a usage Error naming LossHead::weight where heads have different weights and no factors
  /// say how they share a mean.
  Total total(const models::Activations& output, const batch::MicroBatch& micro,
              const ForwardContext& context) const;

 private:
  double factor_of(std::size_t head) const;
  Loss run(const models::LossHead& head, double factor, const models::Activations& output,
           const batch::MicroBatch& micro, const ForwardContext& context) const;
  void expect_one_denominator(const models::LossHead& head, double weight, double first) const;

  std::vector<models::LossHead> heads_;
  NamedParameters parameters_;
  PassOptions options_;
};

}  // namespace accrue::train
