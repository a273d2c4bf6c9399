#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/accum/window.h"
#include "accrue/core/long_operation.h"
#include "accrue/core/observer.h"
#include "accrue/core/user_model.h"
#include "accrue/data/source.h"
#include "accrue/train/config.h"
#include "accrue/train/custom.h"
#include "accrue/train/run_plan.h"
#include "accrue/train/run_record.h"

namespace accrue {
class NoticeWatch;
}

namespace accrue::distributed {
class Group;
}

namespace accrue::train {

struct RunOptions {
  bool resume = false;
  bool may_begin = false;  ///< with `resume`: begins the run where run.out holds none
  std::string
      checkpoint;  ///< with `resume`: a checkpoint folder or a step; empty: the newest whole one
  /// With `resume`: a run.steps (or tokens, epochs) that is less than what the run has is taken,
  /// too, and not only a larger one.
  bool may_shorten = false;
  /// A run that this one repeats from its beginning, by the same plan (config_to_repeat() has its
  /// config). What differs from it is told in events `repeat`.
  std::shared_ptr<const RunRecord> repeats = nullptr;
  /// Data that changed are accepted: with `resume` where they hold as many samples as before, with
  /// `repeats` always.
  bool accept_data = false;
  bool quiet = false;                ///< no progress is shown, whatever observe.progress says
  std::vector<std::string> command;  ///< as typed, for run.json
  /// Notes the scheduler's notices (SIGUSR2) from before the run; the command line has one. Null:
  /// the run makes its own.
  const NoticeWatch* notice = nullptr;
};

struct RunResult {
  std::int64_t step = 0;
  bool interrupted = false;         ///< by a signal; a checkpoint was written
  std::optional<double> loss;       ///< the last step's
  std::optional<double> eval_loss;  ///< the last evaluation's
  /// Most bytes in tensors, and reserved for them, during the run; 0 if nothing meters them.
  std::int64_t peak_bytes = 0, peak_reserved_bytes = 0;
  std::filesystem::path checkpoint;
};

/// What a run would be; nothing of it is done yet.
struct Preview {
  RunPlan plan;
  bool resumes = false;   ///< whether there is a run that is resumed
  std::int64_t step = 0;  ///< of the checkpoint that a resumption goes on from; 0 without
  std::string length;     ///< what changes about a resumed run's length, and why; empty: nothing
  std::string done;       ///< that a resumed run is at its end, and how to go on; empty: it is not
  std::vector<std::string> repetition;  ///< how it differs from a run that it repeats, in sentences
};

/// The whole of a training run: data, model, windows, optimizer, checkpoints, evaluation.
class Trainer {
 public:
  /// Opens the data and builds the model; writes nothing. Throws a usage Error for whatever in the
  /// config does not fit (a batch that no sequence fits into, no file, a model that does not load).
  ///
  /// With a `group` each of its ranks has a Trainer of the same config and sees the same files:
  /// they share each window's micro-batches and take the same steps. The first one alone writes the
  /// run directory and tells observers. An error on one ends the run on all.
  ///
  /// `show` is called during what may take long before the first step, here and in plan(),
  /// preview() and run(): text becomes tokens, a model is loaded, micro-batches are tried, a
  /// reference reads pairs.
  explicit Trainer(Config config, const std::shared_ptr<distributed::Group>& group = nullptr,
                   const ShowProgress& show = {});
  /// Trains what the program brings; model.kind is "custom".
  Trainer(Config config, Custom custom, const std::shared_ptr<distributed::Group>& group = nullptr)
      : Trainer(with_custom(std::move(config), std::move(custom)), group) {}
  /// Trains a module of the program's own, in place: `model` is a torch::nn holder or a
  /// std::shared_ptr of a module, `loss_fn(model, micro)` returns accrue::Loss{sum, weight} of an
  /// accrue::batch::MicroBatch. `train` and `val` are its data; null: those of the config.
  ///
  ///   accrue::Trainer(config, net, [](Net& net, const accrue::batch::MicroBatch& micro) {
  ///     return accrue::Loss{loss_sum_of(net->forward(micro.inputs), micro.targets), n};
  ///   }).run();
  template <accrue::detail::HasNamedParameters Model, class LossFn>
  Trainer(Config config, Model model, LossFn loss_fn,
          std::shared_ptr<const data::Source> train = nullptr,
          std::shared_ptr<const data::Source> val = nullptr,
          const std::shared_ptr<distributed::Group>& group = nullptr)
      : Trainer(std::move(config),
                {.model = once(trainable(std::move(model), std::move(loss_fn))),
                 .train = std::move(train),
                 .val = std::move(val)},
                group) {}
  /// Trains a chain of segments of the program's own, in place.
  Trainer(Config config, std::unique_ptr<models::Trainable> trainable,
          std::shared_ptr<const data::Source> train = nullptr,
          std::shared_ptr<const data::Source> val = nullptr,
          const std::shared_ptr<distributed::Group>& group = nullptr)
      : Trainer(
            std::move(config),
            {.model = once(std::move(trainable)), .train = std::move(train), .val = std::move(val)},
            group) {}
  ~Trainer();

  /// Sees the mean gradient between the close of a window and the step, before clipping; may change
  /// the buffer in place (its scale is 1 then).
  using GradientHook = std::function<void(accum::MeanGradient&)>;
  void set_gradient_hook(GradientHook hook);

  /// Receives everything the run does. To be called before `run`.
  void add_observer(std::shared_ptr<Observer> observer);

  /// Decides the micro-batch (measured where it is "auto") and states what the run will be. All
  /// ranks of a group call it.
  const RunPlan& plan();

  /// What `run` would do, refused as `run` would refuse it; writes nothing. What it does not look
  /// at: the contents of data, and the tensors of a checkpoint. All ranks of a group call it.
  Preview preview(const RunOptions& options = {});

  /// Trains to the end of the run, or to a SIGINT, SIGTERM or SIGHUP, after which a checkpoint is
  /// written. Throws a usage Error if run.out holds a run already and `resume` is not set, or
  /// where config, model or data differ from the run's in what may not change; nothing is written
  /// then.
  RunResult run(const RunOptions& options = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::train

namespace accrue {

using train::Trainer;

}  // namespace accrue
