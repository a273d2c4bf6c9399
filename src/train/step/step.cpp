#include "accrue/train/step.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "accrue/kernels/accelerate.h"
#include "accum/single_thread_guard.h"
#include "distributed/group/among_ranks.h"
#include "memory/out_of_memory.h"
#include "memory/retries.h"
#include "memory/thread_meter.h"
#include "support/snapshot.h"
#include "train/step/micro_batch_size.h"
#include "train/step/optimizer_steps.h"

namespace accrue::detail {
namespace {

constexpr const char* kStep = "accrue::step";

std::string samples_in_words(std::int64_t begin, std::int64_t end) {
  if (end - begin == 1) return "sample " + std::to_string(begin);
  return "samples " + std::to_string(begin) + " to " + std::to_string(end - 1);
}

std::string memory_advice() {
  return "a larger memory budget, a smaller sample, or a model that recomputes its activations";
}

std::vector<std::int64_t> rows_of(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

/// The first of a range of numbers that no other rank gives its rows.
std::int64_t first_row_of(const distributed::Group* group) {
  constexpr int bits_of_rows = 32;
  return group == nullptr ? 0 : group->rank() << bits_of_rows;
}

}  // namespace

class SliceStepper::Impl {
 public:
  Impl(SteppedModel model, torch::optim::Optimizer& optimizer, StepOptions options)
      : model_(std::move(model)),
        optimizer_(optimizer),
        options_(std::move(options)),
        settled_(model_.buffers),
        at_start_(model_.buffers),
        accumulator_(model_.parameters, accumulation(), model_.batch_norms) {}

  StepReport step(std::int64_t samples, const RunSlice& run) {
    const accum::SingleThreadGuard::Call call(thread_, kStep);
    return distributed::among_ranks(options_.group.get(), [&] { return step_alike(samples, run); });
  }

  accum::WindowShare share(std::int64_t samples) {
    const accum::SingleThreadGuard::Call call(thread_, "share");
    return accumulator_.share(Samples{samples});
  }

 private:
  StepReport step_alike(std::int64_t samples, const RunSlice& run) {
    train::check_batch(kStep, samples, options_.micro_batch, options_.group != nullptr);
    std::optional<Accelerated> accelerated;
    if (options_.accelerate) accelerated.emplace(model_.parameters);
    const std::int64_t first = first_row_of(options_.group.get());
    const RunSlice keyed_run = [&](std::int64_t begin, std::int64_t end) {
      if (accelerated) accelerated->begin(rows_of(first + begin, first + end));
      return run(begin, end);
    };
    run_ = &keyed_run;
    const AccumulatorScope window = accumulator_.window();
    if (samples > 0) run_share(samples);
    StepReport report = accumulator_.step(optimizer_);
    steps_ = report.step = train::steps_taken(optimizer_).value_or(report.step);
    const std::vector<std::int64_t>& by_rank = report.rank_samples;
    samples_ +=
        options_.group ? std::accumulate(by_rank.begin(), by_rank.end(), std::int64_t{0}) : samples;
    report.samples = samples_;
    if (samples == 0) return report;
    if (const auto grown = recovery_->window_done(retries_->count() == 0))
      tell("micro_batch", grown->reason);
    report.micro_batch = largest_;
    report.retries += retries_->count();
    return report;
  }

  void run_share(std::int64_t samples) {
    if (samples > planned_for_) plan(samples);
    retries_->start();
    run_window(samples);
    if (const auto story = retries_->take_retry_report()) tell("out_of_memory", *story);
  }

  AccumulatorOptions accumulation() {
    AccumulatorOptions accumulation{.clip_norm = options_.clip_norm};
    accumulation.replay = [this](const MicroRef& micro) {
      return (*run_)(micro.sample_ids.front(), micro.sample_ids.back() + 1);
    };
    // Remembers a size that did not fit, for the following steps.
    accumulation.split_out_of_memory = false;
    accumulation.watch_parameters = options_.watch_parameters;
    accumulation.on_event = options_.on_event;
    accumulation.on_mean_gradient = options_.on_mean_gradient;
    accumulation.group = options_.group;
    accumulation.sharing = options_.sharing;
    return accumulation;
  }

  void tell(const char* name, const std::string& reason) const {
    if (options_.on_event) options_.on_event({name, reason, steps_});
  }

  /// Chooses micro-batches for batches of up to `samples`.
  void plan(std::int64_t samples) {
    const std::int64_t micro = options_.micro_batch > 0 ? options_.micro_batch : fitting(samples);
    const bool is_mathematics =
        options_.micro_batch > 0 && model_.batch_norms && !model_.batch_norms().empty();
    recovery_.emplace(
        memory::RecoveryState{.planned = micro, .micro_batch = micro},
        is_mathematics ? "batch normalisation takes the statistics of its micro_batch" : "");
    retries_.emplace(&*recovery_, memory_advice);
    planned_for_ = samples;
  }

  std::int64_t fitting(std::int64_t samples) {
    if (samples == 1) return 1;
    if (!bytes_per_sample_) bytes_per_sample_ = trial();
    const train::MicroDecision decision =
        train::decide_micro_batch(train::micro_trial(*bytes_per_sample_, samples));
    tell("micro_batch", decision.reason);
    return decision.samples;
  }

  /// The bytes of a sample in a forward pass with its graph, without lasting effects. It runs two
  /// samples, since batch normalisation may refuse one. If they do not fit it returns the memory
  /// taken until then, and the first micro-batch is halved.
  std::int64_t trial() {
    constexpr std::int64_t kSamples = 2;
    const Keep keep{GeneratorSnapshot(devices_of(tensors_of(model_.parameters)))};
    settled_.keep();
    const memory::ThreadMeter meter;
    try {
      (*run_)(0, kSamples);
    } catch (const std::exception& error) {
      if (!memory::is_out_of_memory(error)) throw;
    }
    settled_.restore();
    return meter.peak() / kSamples;
  }

  /// Runs the window, and once more as a whole if a replay failed.
  void run_window(std::int64_t samples) {
    at_start_.keep();
    while (true) {
      try {
        return run_slices(samples);
      } catch (const std::exception& error) {
        if (!is_lost() || !memory::is_out_of_memory(error)) throw;
        accumulator_.discard();
        at_start_.restore();
        retries_->window_failed(accumulator_.current_window().ledger().window, largest_, error);
      }
    }
  }

  bool is_lost() const { return accumulator_.pending() && accumulator_.current_window().is_lost(); }

  void run_slices(std::int64_t samples) {
    largest_ = 0;
    memory::run_in_parts(samples, *recovery_, [&](std::int64_t begin, std::int64_t end) {
      if (!run_or_undo(begin, end, end == samples)) return false;
      largest_ = std::max(largest_, end - begin);
      return true;
    });
  }

  /// Returns false if the micro-batch ran out of memory and was undone.
  bool run_or_undo(std::int64_t begin, std::int64_t end, bool is_last) {
    settled_.keep();
    try {
      Loss loss = (*run_)(begin, end);
      if (is_last) accumulator_.next_is_last();
      accumulator_.backward(std::move(loss), Samples{end - begin}, rows_of(begin, end));
      retries_->passed();
      return true;
    } catch (const std::exception& error) {
      if (is_lost() || !memory::is_out_of_memory(error)) throw;
      settled_.restore();
      retries_->failed(samples_in_words(begin, end), end - begin, error);
      return false;
    }
  }

  accum::SingleThreadGuard thread_{"Stepper"};
  SteppedModel model_;
  torch::optim::Optimizer& optimizer_;
  StepOptions options_;
  TensorSnapshot settled_;   ///< the buffers before the micro-batch that runs
  TensorSnapshot at_start_;  ///< the buffers before the window
  Accumulator accumulator_;
  const RunSlice* run_ = nullptr;
  std::optional<memory::Recovery> recovery_;
  std::optional<memory::Retries> retries_;
  std::int64_t planned_for_ = 0;  ///< samples of the largest batch so far
  std::optional<std::int64_t> bytes_per_sample_;
  std::int64_t samples_ = 0;  ///< samples of all steps
  std::int64_t steps_ = 0;    ///< StepReport::step of the last report
  std::int64_t largest_ = 0;  ///< samples of this window's largest micro-batch
};

SliceStepper::SliceStepper(SteppedModel model, torch::optim::Optimizer& optimizer,
                           StepOptions options)
    : impl_(std::make_unique<Impl>(std::move(model), optimizer, std::move(options))) {}
SliceStepper::~SliceStepper() = default;

StepReport SliceStepper::step(std::int64_t samples, const RunSlice& run) {
  return impl_->step(samples, run);
}

accum::WindowShare SliceStepper::share(std::int64_t samples) { return impl_->share(samples); }

}  // namespace accrue::detail
