#include "exact_runner.h"

#include "accrue/core/clock.h"

namespace accrue::train {
namespace {

ExactOptions exact_options(WindowRunner::Hooks hooks) {
  return {.interrupted = std::move(hooks.interrupted),
          .on_progress = std::move(hooks.on_micro_batch),
          .on_quarantine = std::move(hooks.on_quarantine)};
}

}  // namespace

ExactRunner::ExactRunner(models::Trainable& model, accum::Window& window, data::Loader& loader,
                         std::uint64_t seed, WindowRunner::Hooks hooks, WindowRunnerOptions options)
    : window_(window),
      options_(options),
      exact_(
          model, window, [&loader](batch::Range range) { return loader.fetch(range); }, seed,
          exact_options(std::move(hooks))) {
  window_.set_replay([this](const MicroRef&) { return exact_.replay(); });
}

ExactRunner::~ExactRunner() { window_.set_replay({}); }

WindowRun ExactRunner::run(std::int64_t index, batch::Range range, std::int64_t micro) {
  const std::vector<batch::Range> parts = batch::split(range, micro);
  const auto count = static_cast<std::int64_t>(parts.size());
  WindowRun result;
  window_.open(index);
  try {
    Stopwatch watch;
    const ExactRun run = exact_.run(index, parts);
    result = {.interrupted = run.interrupted,
              .tokens = run.tokens,
              .micro_batches = count,
              .seconds = watch.seconds()};
    if (run.interrupted) return result;
    watch.restart();
    result.gradient = window_.close();
    result.closing_seconds = watch.seconds();
    require_few_quarantined(window_.ledger(), options_.max_quarantined, count);
  } catch (...) {
    window_.discard();
    throw;
  }
  take_ledger(window_, result);
  return result;
}

}  // namespace accrue::train
