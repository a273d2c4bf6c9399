#include "train/window/exact/exact_runner.h"

#include <utility>

#include "accrue/core/clock.h"

namespace accrue::train {

ExactRunner::ExactRunner(models::Trainable& model, accum::Window& window, data::Loader& loader,
                         std::uint64_t seed, WindowHooks hooks, RunnerOptions options)
    : window_(window),
      loader_(loader),
      hooks_(std::move(hooks)),
      options_(options),
      losses_(model),
      at_open_(model),
      retries_(options_.recovery, hooks_.on_out_of_memory, hooks_.memory_advice,
               hooks_.enough_budget),
      exact_(
          model, window, [&loader](batch::Range range) { return loader.fetch(range); }, seed,
          exact_options()) {
  window_.set_replay([this](const MicroRef&) { return exact_.replay(); });
}

ExactRunner::~ExactRunner() { window_.set_replay({}); }

ExactOptions ExactRunner::exact_options() {
  return {.cut_folder = options_.cut_folder,
          .losses = [this] { return losses_.pass_options(); },
          .interrupted = hooks_.interrupted,
          .on_progress = [this](std::int64_t done, std::int64_t all) { tell_progress(done, all); },
          .on_quarantine = [this](const MicroRef& micro,
                                  const std::string& reason) { quarantine(micro, reason); }};
}

/// In micro-batches, each of which takes several passes.
void ExactRunner::tell_progress(std::int64_t passes_done, std::int64_t passes) {
  const std::int64_t done = passes_done * micro_batches_ / passes;
  if (done == told_ || !hooks_.on_micro_batch) return;
  told_ = done;
  hooks_.on_micro_batch(done, micro_batches_);
}

/// Each attempt without a micro-batch costs a window, so too many are noticed at once.
void ExactRunner::quarantine(const MicroRef& micro, const std::string& reason) {
  if (hooks_.on_quarantine) hooks_.on_quarantine(micro, reason);
  losses_.quarantine(micro.index);
  require_few_quarantined(window_.ledger(), options_.max_quarantined, micro_batches_);
}

WindowRun ExactRunner::run(std::int64_t index, batch::Range range, std::int64_t micro) {
  return run_with_retries(
      retries_, window_, index, batch::split(range, micro),
      [&](const std::vector<batch::Range>& parts) { return attempt(index, parts); });
}

WindowRun ExactRunner::attempt(std::int64_t index, const std::vector<batch::Range>& parts) {
  micro_batches_ = static_cast<std::int64_t>(parts.size());
  told_ = 0;
  WindowRun result;
  at_open_.keep();
  window_.open(index);
  try {
    Stopwatch watch;
    losses_.count(parts, [this](batch::Range part) { return loader_.fetch(part); });
    const ExactRun run = exact_.run(index, parts);
    result = {.interrupted = run.interrupted,
              .tokens = run.tokens,
              .micro_batches = micro_batches_,
              .seconds = watch.seconds(),
              .left_out = run.left_out};
    require_few_left_out(result.left_out, options_.max_quarantined, parts, index);
    if (run.interrupted) return result;
    watch.restart();
    result.gradient = window_.close();
    result.closing_seconds = watch.seconds();
  } catch (...) {
    window_.discard();
    at_open_.restore();
    throw;
  }
  take_ledger(window_, result);
  return result;
}

}  // namespace accrue::train
