#pragma once

#include <cstdint>
#include <memory>

#include "accrue/batch/sampler.h"
#include "accrue/batch/schedule.h"
#include "accrue/data/source.h"
#include "accrue/models/gpt2.h"
#include "accrue/optim/optimizer.h"
#include "accrue/optim/schedule.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// A config with everything that follows from other files filled in: the vocabulary of the
/// tokenizer, the shape of the model it starts from.
Config resolve(Config config);

/// An initialised model of the config's shape; weights of `model.from` are not loaded.
std::unique_ptr<models::Gpt2> make_model(const Config& config);
/// The model training starts from: `model.from`, or a fresh one.
std::unique_ptr<models::Gpt2> make_initial_model(const Config& config);

struct Datasets {
  std::shared_ptr<const data::Source> train;
  std::shared_ptr<const data::Source> val;  ///< null where the config names none
};
/// Throws a usage Error where nothing matches, files are corrupt, or too little is left to train
/// on.
Datasets open_datasets(const Config& config);

/// Samples of a full window. Throws a usage Error where no sequence fits into the batch.
std::int64_t samples_per_window(const Config& config);

batch::WindowSchedule make_window_schedule(const Config& config, std::int64_t train_samples);
batch::Sampler make_sampler(const Config& config, std::int64_t train_samples);

/// Windows of the whole run. Throws a usage Error where the run would have none.
std::int64_t total_windows(const Config& config, const batch::WindowSchedule& schedule);

std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config,
                                                 const NamedParameters& parameters);
optim::LearningRate make_learning_rate(const Config& config, const Horizon& horizon);

}  // namespace accrue::train
