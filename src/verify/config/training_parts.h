#pragma once

#include <memory>

#include "accrue/distributed/group.h"
#include "accrue/models/model.h"
#include "accrue/optim/optimizer.h"
#include "train/ranks/parallelism.h"

namespace accrue::proof {

/// The parts of training that a verification uses besides the flow of a window: they make copies of
/// the model and optimizers, close windows, and take steps. By default training's own; an override
/// is verified in their place. It must outlive the verification.
class TrainingParts {
 public:
  virtual ~TrainingParts() = default;
  /// A model like the workload's, with other values so far; like train::make_model.
  virtual std::unique_ptr<models::Model> model(const train::Config& config) const;
  /// The result of train::make_optimizer.
  virtual std::unique_ptr<optim::Optimizer> optimizer(const train::Config& config,
                                                      const NamedParameters& trained) const;
  /// How a process that does not share its windows closes them.
  virtual std::unique_ptr<train::Parallelism> parallelism() const;
  /// The group by which a rank exchanges sums and parameters: the one that it joined.
  virtual std::shared_ptr<distributed::Group> group(
      std::shared_ptr<distributed::Group> joined) const;
  /// Clips the gradient and takes one step at the config's learning rate, as training does. `rank`
  /// is the process among those that share the window; {0, 1} if it is alone.
  virtual void step(optim::Optimizer& optimizer, accum::MeanGradient&& gradient,
                    const train::OptimConfig& config, RankSlice rank) const;
};

/// Training's own parts.
const TrainingParts& training_parts();

}  // namespace accrue::proof
