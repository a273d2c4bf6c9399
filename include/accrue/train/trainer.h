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
  bool may_begin = false;  ///< with `resume`: starts the run if run.out holds none
  std::string
      checkpoint;  ///< with `resume`: a checkpoint folder or a step; empty: the newest complete one
  /// With `resume`: also accepts a run.steps (or tokens, epochs) that is less than the run's, and
  /// not only a larger one.
  bool may_shorten = false;
  /// With `resume`: a batch.tokens or batch.samples that differs from what the run has is taken
  /// from the next step on, if the config allows it (batch_may_change()), and not refused. Later
  /// resumptions and repetitions make the same change at the same step.
  bool may_change_batch = false;
  /// A run that this one repeats from its beginning, by the same plan (config_to_repeat() has its
  /// config). Differences from it are reported in events `repeat`.
  std::shared_ptr<const RunRecord> repeats = nullptr;
  /// Accepts changed data: with `resume` if the number of samples is the same, with `repeats`
  /// always.
  bool accept_data = false;
  bool quiet = false;                ///< shows no progress, whatever observe.progress states
  std::vector<std::string> command;  ///< as typed, for run.json
  /// Notes the scheduler's notices (SIGUSR2) from before the run; the command line has one. Null:
  /// the run makes its own.
  const NoticeWatch* notice = nullptr;
};

struct RunResult {
  std::int64_t step = 0;
  bool interrupted = false;         ///< by a signal; a checkpoint was written
  std::optional<double> loss;       ///< of the last step
  std::optional<double> eval_loss;  ///< of the last evaluation
  /// Most bytes in tensors, and reserved for them, during the run; 0 if nothing measures them.
  std::int64_t peak_bytes = 0, peak_reserved_bytes = 0;
  std::filesystem::path checkpoint;
};

/// The outcome of a run in advance; nothing of it is done.
struct Preview {
  RunPlan plan;
  bool resumes = false;   ///< whether there is a run that is resumed
  std::int64_t step = 0;  ///< of the checkpoint that a resumption goes on from; 0 without
  std::string length;     ///< what changes about a resumed run's length, and why; empty: nothing
  std::string batch;      ///< how a resumed run's batch was changed by hand; empty: it was not
  std::string done;       ///< that a resumed run is at its end, and how to go on; empty: it is not
  std::vector<std::string> repetition;  ///< how it differs from a run that it repeats, in sentences
};

/// A whole training run: data, model, windows, optimizer, checkpoints, evaluation.
class Trainer {
 public:
  /// Opens the data and builds the model; writes nothing. Throws a usage Error if something in the
  /// config does not fit (a batch smaller than a sequence, no file, a model that does not load).
  ///
  /// With a `group` each of its ranks makes a Trainer with the same config and the same files: they
  /// share each window's micro-batches and take the same steps. Only the first rank writes the run
  /// directory and calls observers. An error on one rank ends the run on all.
  ///
  /// `show` is called during what may take long before the first step, here and in plan(),
  /// preview() and run(): text becomes tokens, a model is loaded, micro-batches are tried, a
  /// reference reads pairs.
  explicit Trainer(Config config, const std::shared_ptr<distributed::Group>& group = nullptr,
                   const ShowProgress& show = {});
  /// Trains what the program brings; model.kind is "custom".
  Trainer(Config config, Custom custom, const std::shared_ptr<distributed::Group>& group = nullptr)
      : Trainer(with_custom(std::move(config), std::move(custom)), group) {}
  /// Trains a module of the program, in place: `model` is a torch::nn holder or a std::shared_ptr
  /// of a module, and `loss_fn(model, micro)` returns accrue::Loss{sum, weight} for an
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
  /// Trains a chain of segments of the program, in place.
  Trainer(Config config, std::unique_ptr<models::Trainable> trainable,
          std::shared_ptr<const data::Source> train = nullptr,
          std::shared_ptr<const data::Source> val = nullptr,
          const std::shared_ptr<distributed::Group>& group = nullptr)
      : Trainer(
            std::move(config),
            {.model = once(std::move(trainable)), .train = std::move(train), .val = std::move(val)},
            group) {}
  ~Trainer();

  /// Sets a function that receives the mean gradient between the close of a window and the step,
  /// before clipping. It may change the buffer in place (its scale is then 1).
  using GradientHook = std::function<void(accum::MeanGradient&)>;
  void set_gradient_hook(GradientHook hook);

  /// Adds an observer of all events of the run. Call it before `run`.
  void add_observer(std::shared_ptr<Observer> observer);

  /// Selects the micro-batch (by measurement if it is "auto") and returns the plan of the run. All
  /// ranks of a group must call it.
  const RunPlan& plan();

  /// Returns what `run` would do, and throws its errors; writes nothing. It checks neither the
  /// contents of data nor the tensors of a checkpoint. All ranks of a group must call it.
  Preview preview(const RunOptions& options = {});

  /// Trains to the end of the run, or to a SIGINT, SIGTERM or SIGHUP, after which a checkpoint is
  /// written. Throws a usage Error if run.out already holds a run and `resume` is not set, or if
  /// config, model or data differ from the run's in a way that is not allowed; nothing is written
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
