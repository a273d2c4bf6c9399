#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/core/long_operation.h"
#include "accrue/data/source.h"
#include "accrue/memory/offload.h"
#include "accrue/models/model.h"
#include "accrue/optim/optimizer.h"
#include "accrue/optim/schedule.h"
#include "accrue/train/config.h"
#include "batch/sampler.h"
#include "batch/schedule.h"
#include "train/checkpoint/data_continuity.h"

namespace accrue::train {

struct Datasets {
  std::shared_ptr<const data::Source> train = nullptr;
  std::shared_ptr<const data::Source> val = nullptr;  ///< null if the config names none
};

/// Whether accrue runs the operations of a foreign model.
struct Acceleration {
  bool on = false;
  std::string reason;  ///< the decision and its reason, for people
};

/// The objects of a config, on which a run, a benchmark or a verification works.
struct Workload {
  /// Keeps the model and what training adds to it in a file (memory.offload); null: in memory. The
  /// first member, because it has to outlive the others.
  std::unique_ptr<memory::OffloadScope> offload = {};
  /// How memory.offload = "auto" was decided, for people; else empty.
  std::string offload_reason = {};
  /// The config as given, with the batch in samples or tokens and the model's shape filled in: from
  /// `model.from`, and from the data, which determine the vocabulary or the classes and the shape
  /// of the images.
  Config config;
  Datasets data;
  /// The data without a reference, if the loss compares with one; else empty.
  Datasets pairs = {};
  /// Which samples each step takes. Copies share what is known of samples of unequal length.
  batch::WindowSchedule schedule;
  std::unique_ptr<models::Model> model;  ///< initial state: from `model.from`, or fresh
  /// The decisions about the model, a sentence each: the checkpoint of `model.from`, a shorter
  /// context.
  std::vector<std::string> remarks;
  /// Set once it is decided (train/plan/acceleration.h), for a foreign model.
  std::optional<Acceleration> acceleration = {};
  RankSlice slice = {};    ///< the part of the optimizer's state in this process
  std::int64_t ranks = 1;  ///< how many share each window (ranks_that_share)
};

/// Opens what the config's data are, the standard input among them (with_standard_input()), without
/// a model; `config` gets the context and the vocabulary
/// of the one that `model.from` names. Throws a usage Error as open_workload() does for data.
Datasets open_data(Config& config, const ShowProgress& show = {});

/// The progress shown while text becomes tokens. Of ranks that share a cache of text only one makes
/// them; all else they do alike.
inline constexpr const char* kTokenizing = "tokenizing";

/// Throws a usage Error if a file is missing or corrupt, data and model do not go together, or
/// too little is left to train on. A batch stated in micro-batches is one rank's; for several ranks
/// with_whole_batch() states it first. `train` is what open_data() opened for training, if it was
/// asked before.
Workload open_workload(Config config, const ShowProgress& show = {},
                       std::shared_ptr<const data::Source> train = nullptr);

/// An initialised model of a config whose shape is filled in (Workload::config, or a checkpoint's);
/// model.from is read only if its file alone has the shape (TorchScript).
std::unique_ptr<models::Model> make_model(const Config& config);
/// The same for a caller that loads all its values: those of a llama are zeros, which is fast.
std::unique_ptr<models::Model> make_model_to_load(const Config& config);

/// Whether the statistics of the model's batch normalisations are those of whole windows: the
/// config requests exact batch normalisation, and the model has any.
bool takes_window_statistics(const Config& config, models::Trainable& model);
/// Whether all micro-batches of a window pass through one segment before the next segment begins:
/// for such statistics, or because the config requests that order.
bool is_layered(const Config& config, models::Trainable& model);

/// A run's record of its data, to recognize them; their contents are not checked yet.
DataIdentity data_identity(const Workload& work);

/// Throws a usage Error if no sample fits into the batch, or an epoch would have no window.
batch::WindowSchedule make_window_schedule(const Config& config,
                                           const std::shared_ptr<const data::Source>& train);

batch::Sampler make_sampler(const Config& config, const data::Source& train);

/// Windows of the whole run.
std::int64_t total_windows(const Config& config, const batch::WindowSchedule& schedule);

/// Makes a buffer in the precision of `precision.accumulate`, or one that folds into `optimizer` if
/// the config requests it. Without an optimizer the latter checks its input and discards it, for
/// trials.
std::shared_ptr<accum::GradientBuffer> make_gradient_buffer(const Config& config,
                                                            const models::Trainable& model,
                                                            optim::Optimizer* optimizer = nullptr);
/// The groups that the optimizer's parameters form.
std::vector<optim::ParameterGroup> parameter_groups(const Config& config,
                                                    const NamedParameters& parameters);
std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config,
                                                 const NamedParameters& parameters,
                                                 const RankSlice& slice = {});
optim::LearningRate make_learning_rate(const Config& config, const Horizon& horizon);

/// Throws a usage Error that names the key if the run's peak rate, scaled to its batch, or that of
/// a pattern is more than parameters can hold, or below optim.schedule.min_lr. The batch is stated
/// in samples or tokens (with_whole_batch). open_workload() calls this, for all verbs.
void check_rates(const Config& config);

}  // namespace accrue::train
