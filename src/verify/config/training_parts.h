#pragma once

#include <memory>

#include "accrue/models/model.h"
#include "accrue/optim/optimizer.h"
#include "train/ranks/parallelism.h"

namespace accrue::proof {

/// What a proof takes for training beside the flow of a window: what makes copies of the model and
/// optimizers, and what closes windows. These are training's own; whoever overrides one of them has
/// another one proved in its place. It outlives the proof.
class TrainingParts {
 public:
  virtual ~TrainingParts() = default;
  /// A model like the workload's, whose values are not yet its; as train::make_model.
  virtual std::unique_ptr<models::Model> model(const train::Config& config) const;
  /// What train::make_optimizer makes.
  virtual std::unique_ptr<optim::Optimizer> optimizer(const train::Config& config,
                                                      const NamedParameters& trained) const;
  /// How one process that has its windows to itself closes them.
  virtual std::unique_ptr<train::Parallelism> parallelism() const;
};

/// Training's own.
const TrainingParts& training_parts();

}  // namespace accrue::proof
