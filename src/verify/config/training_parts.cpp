#include "verify/config/training_parts.h"

#include <utility>

#include "train/ranks/single_process.h"
#include "train/workload/workload.h"

namespace accrue::proof {

std::unique_ptr<models::Model> TrainingParts::model(const train::Config& config) const {
  return train::make_model_to_load(config);
}

std::unique_ptr<optim::Optimizer> TrainingParts::optimizer(const train::Config& config,
                                                           const NamedParameters& trained) const {
  return train::make_optimizer(config, trained);
}

std::unique_ptr<train::Parallelism> TrainingParts::parallelism() const {
  return std::make_unique<train::SingleProcess>();
}

std::shared_ptr<distributed::Group> TrainingParts::group(
    std::shared_ptr<distributed::Group> joined) const {
  return joined;
}

void TrainingParts::step(optim::Optimizer& optimizer, accum::MeanGradient&& gradient,
                         const train::OptimConfig& config, RankSlice /*rank*/) const {
  if (config.clip > 0) gradient.clip(config.clip);
  optimizer.step(std::move(gradient), config.lr);
}

const TrainingParts& training_parts() {
  static const TrainingParts own;
  return own;
}

}  // namespace accrue::proof
