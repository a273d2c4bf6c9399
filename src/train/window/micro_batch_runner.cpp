#include "train/window/micro_batch_runner.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "memory/out_of_memory.h"
#include "train/pass/run_micro_batch.h"
#include "train/window/window_totals.h"

namespace accrue::train {
namespace {

std::string describe_quarantined(const LedgerView& ledger) {
  std::string text;
  for (const LedgerEntry& entry : ledger.entries) {
    if (entry.status != MicroStatus::quarantined) continue;
    text += (text.empty() ? "" : "; ") + describe(entry.micro) + ": " + entry.reason;
  }
  return text;
}

}  // namespace

std::int64_t allowed_quarantined(double limit, std::int64_t count) {
  if (limit <= 0) return 0;
  const double allowed = std::floor(limit * static_cast<double>(count));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(allowed));
}

void require_few_quarantined(const LedgerView& ledger, double limit, std::int64_t micro_batches) {
  const std::int64_t allowed = allowed_quarantined(limit, micro_batches);
  const std::int64_t quarantined = ledger.count(MicroStatus::quarantined);
  if (quarantined <= allowed) return;
  throw runtime_error(
      "window " + std::to_string(ledger.window),
      "at most " + std::to_string(allowed) + " of its " + std::to_string(micro_batches) +
          " micro-batches without a finite loss and gradient",
      std::to_string(quarantined) + ": " + describe_quarantined(ledger),
      "looking at these samples, a lower optim.lr, a longer warm-up, --resume from an earlier "
      "checkpoint, or a larger batch.max_quarantined");
}

std::string describe(std::span<const batch::LeftOut> left_out) {
  std::string text;
  for (const batch::LeftOut& sample : left_out)
    text += (text.empty() ? "sample " : "; sample ") + std::to_string(sample.sample_id) + ": " +
            sample.reason;
  return text;
}

void require_few_left_out(std::span<const batch::LeftOut> left_out, double limit,
                          std::span<const batch::Range> parts, std::int64_t window) {
  if (left_out.empty()) return;
  const std::int64_t samples = parts.back().end - parts.front().begin;
  const std::int64_t allowed = allowed_quarantined(limit, samples);
  if (std::ssize(left_out) <= allowed) return;
  throw runtime_error("window " + std::to_string(window),
                      "at most " + std::to_string(allowed) + " of its " + std::to_string(samples) +
                          " samples that cannot be read",
                      std::to_string(left_out.size()) + ": " + describe(left_out),
                      "--resume with data.exclude for these files, --resume --accept-data once "
                      "they are mended, or --resume with a larger batch.max_quarantined");
}

void take_ledger(const accum::Window& window, WindowRun& result) {
  const LedgerView ledger = window.ledger();
  result.loss_sum = ledger.committed_loss_sum();
  result.weight = ledger.committed_weight();
  result.quarantined = ledger.count(MicroStatus::quarantined);
  result.retries = window.retries();
  result.loss_scale = window.loss_scale();
  result.lost_reason = window.lost_reason();
}

WindowRun run_with_retries(MemoryRetries& retries, const accum::Window& window, std::int64_t index,
                           std::vector<batch::Range> parts, const Attempt& attempt) {
  retries.start();
  while (true) {
    try {
      WindowRun run = attempt(parts);
      retries.tell();
      run.out_of_memory = retries.count();
      run.retries += retries.count();
      return run;
    } catch (const std::exception& error) {
      const bool may_retry = retries.enabled() && !parts.empty() && !window.is_torn();
      if (!may_retry || !memory::is_out_of_memory(error)) throw;
      const auto decision = retries.window_failed(index, parts.front().size(), error);
      if (decision.action == memory::Recovery::Action::split)
        parts = batch::split({parts.front().begin, parts.back().end}, decision.micro_batch);
    }
  }
}

MicroBatchRunner::MicroBatchRunner(models::Trainable& model, accum::Window& window,
                                   data::Loader& loader, std::uint64_t seed, WindowHooks hooks,
                                   RunnerOptions options)
    : model_(model),
      window_(window),
      loader_(loader),
      seed_(seed),
      hooks_(std::move(hooks)),
      options_(options),
      losses_(model, window.buffer()->needs_total_weight()),
      retries_(options_.recovery, hooks_.on_out_of_memory, hooks_.memory_advice,
               hooks_.enough_budget),
      at_open_(model),
      settled_(model) {
  window_.set_replay([this](const MicroRef& ref) { return replay(ref); });
  window_.set_on_quarantine([this](const LedgerEntry& entry) { return quarantine(entry); });
  if (options_.loss_scaler) window_.set_on_overflow([this] { return next_loss_scale(); });
}

MicroBatchRunner::~MicroBatchRunner() {
  window_.set_replay({});
  window_.set_on_quarantine({});
  window_.set_on_overflow({});
}

WindowRun MicroBatchRunner::run(std::int64_t index, batch::Range range, std::int64_t micro) {
  return run(index, batch::split(range, micro));
}

WindowRun MicroBatchRunner::run(std::int64_t index, std::vector<batch::Range> parts) {
  return run_with_retries(
      retries_, window_, index, std::move(parts),
      [&](std::vector<batch::Range>& attempted) { return attempt(index, attempted); });
}

WindowRun MicroBatchRunner::attempt(std::int64_t index, std::vector<batch::Range>& parts) {
  WindowRun result;
  losses_.count(parts, [this](batch::Range part) { return loader_.fetch(part); });
  window_.open(index, options_.loss_scaler ? options_.loss_scaler->scale() : 1,
               losses_.total_weight());
  at_open_.keep();
  settled_.keep();
  const double reducing_before = reducing_seconds();
  try {
    const Stopwatch watch;
    loader_.prefetch(parts);
    run_micro_batches(parts, result);
    result.seconds = watch.seconds();
    const double computing = result.seconds - (reducing_seconds() - reducing_before);
    if (!result.interrupted) close(computing, result);
  } catch (...) {
    window_.discard();
    at_open_.restore();
    loader_.cancel();
    throw;
  }
  return result;
}

void MicroBatchRunner::run_micro_batches(std::vector<batch::Range>& parts, WindowRun& result) {
  for (std::size_t i = 0; i < parts.size();) {
    result.micro_batches = micro_batches_ = static_cast<std::int64_t>(parts.size());
    if (stop_if_interrupted(result)) return;
    if (!run_or_undo(i, parts, result)) continue;
    if (window_.is_torn()) return;
    ++i;
    require_few_bad(result, parts);
    if (hooks_.on_micro_batch) hooks_.on_micro_batch(static_cast<std::int64_t>(i), micro_batches_);
  }
}

void MicroBatchRunner::require_few_bad(const WindowRun& result,
                                       std::span<const batch::Range> parts) const {
  require_few_quarantined(window_.ledger(), options_.max_quarantined, micro_batches_);
  require_few_left_out(result.left_out, options_.max_quarantined, parts, window_.ledger().window);
}

bool MicroBatchRunner::stop_if_interrupted(WindowRun& result) {
  if (!hooks_.interrupted || !hooks_.interrupted()) return false;
  // What is folded into the optimizer cannot be undone: such a window is finished first.
  if (window_.buffer()->is_between_steps()) return false;
  window_.discard();
  at_open_.restore();
  loader_.cancel();
  result.interrupted = true;
  return true;
}

/// False where micro-batch `position` ran out of memory and was undone: it, or what `parts` then
/// holds in its place, is to be run again.
bool MicroBatchRunner::run_or_undo(std::size_t position, std::vector<batch::Range>& parts,
                                   WindowRun& result) {
  MicroRef ref{.index = static_cast<std::int64_t>(position)};
  const std::size_t entries_before = window_.ledger().entries.size();
  try {
    const batch::MicroBatch micro = loader_.next();
    ref.sample_ids = micro.sample_ids;
    const memory::PeakScope peak;
    run_micro_batch(ref, micro, position + 1 == parts.size());
    if (memory::caching_allocator_installed())
      result.micro_batch_peak_bytes =
          std::max(result.micro_batch_peak_bytes.value_or(0), peak.peak().live);
    result.tokens += micro.tokens;
    result.left_out.insert(result.left_out.end(), micro.left_out.begin(), micro.left_out.end());
    retries_.passed();
    return true;
  } catch (const std::exception& error) {
    const bool began = window_.ledger().entries.size() > entries_before;
    if (!retries_.enabled() || began != window_.in_micro_batch() ||
        !memory::is_out_of_memory(error))
      throw;
    if (began) undo();
    if (window_.is_lost()) throw;
    const auto decision = retries_.failed(describe(ref), parts[position].size(), error);
    loader_.cancel();
    if (decision.action == memory::Recovery::Action::split)
      split_from(position, parts, decision.micro_batch);
    loader_.prefetch({parts.begin() + static_cast<std::ptrdiff_t>(position), parts.end()});
    return false;
  }
}

void MicroBatchRunner::undo() {
  window_.abort(MicroStatus::lost, "it ran out of memory");
  if (!window_.is_lost() && !replayed_) settled_.restore();
}

void MicroBatchRunner::split_from(std::size_t position, std::vector<batch::Range>& parts,
                                  std::int64_t micro) {
  const std::vector<batch::Range> rest =
      batch::split({parts[position].begin, parts.back().end}, micro);
  parts.resize(position);
  parts.insert(parts.end(), rest.begin(), rest.end());
  losses_.split_from(position, rest, [this](batch::Range part) { return loader_.fetch(part); });
}

/// What reductions that began in backward passes took of them.
double MicroBatchRunner::reducing_seconds() const {
  return options_.reduce == nullptr ? 0 : options_.reduce->seconds_in_backward();
}

void MicroBatchRunner::close(double computing_seconds, WindowRun& result) {
  RECORD_USER_SCOPE("close window");
  const Stopwatch watch;
  retries_.tell();  // before the ranks are asked for what each has to tell
  if (options_.reduce != nullptr)
    tell_rank_sums(*options_.reduce, hooks_, computing_seconds, result);
  result.gradient = window_.close();
  result.closing_seconds = watch.seconds();
  require_few_quarantined(window_.ledger(), options_.max_quarantined, micro_batches_);
  take_ledger(window_, result);
  if (options_.reduce != nullptr) take_totals(*options_.reduce, result);
  if (window_.ledger().count(MicroStatus::committed) == 0) at_open_.restore();
  if (options_.loss_scaler && result.gradient) options_.loss_scaler->window_done();
}

void MicroBatchRunner::run_micro_batch(const MicroRef& ref, const batch::MicroBatch& micro,
                                       bool is_last) {
  RECORD_USER_SCOPE("micro-batch");
  replayed_ = false;
  if (options_.reduce != nullptr) options_.reduce->begin_micro_batch(is_last);
  if (hooks_.known_bad && hooks_.known_bad(ref)) {
    window_.begin(ref);
    window_.abort(MicroStatus::quarantined, "its gradient was not finite before");
    return;
  }
  const MicroBatchRun run = train::run_micro_batch(window_, model_, ref, micro, context_of(micro),
                                                   pass_options(), &losses_);
  if (run.status == MicroStatus::committed || replayed_) {
    settled_.keep();
  } else {
    settled_.restore();
  }
}

Loss MicroBatchRunner::replay(const MicroRef& ref) {
  replayed_ = true;
  if (is_first_committed(ref)) at_open_.restore();
  const batch::MicroBatch micro = loader_.fetch_draws(ref.sample_ids);
  const PassResult result = forward_backward(model_, micro, context_of(micro), pass_options());
  if (!result.finite)
    throw runtime_error("replay " + describe(ref), "the finite loss of the first time",
                        "one that is not finite",
                        "a model that depends on parameters, data and context alone");
  return {.sum = at::scalar_tensor(result.loss_sum, at::kDouble), .weight = result.weight};
}

/// Replays begin with it.
bool MicroBatchRunner::is_first_committed(const MicroRef& ref) const {
  const auto entries = window_.ledger().entries;
  const auto first = std::ranges::find(entries, MicroStatus::committed, &LedgerEntry::status);
  return first != entries.end() && first->micro.index == ref.index;
}

ForwardContext MicroBatchRunner::context_of(const batch::MicroBatch& micro) const {
  return batch::training_context(micro, seed_, window_.ledger().window);
}

PassOptions MicroBatchRunner::pass_options() const {
  PassOptions options = losses_.pass_options();
  options.loss_scale = window_.loss_scale();
  options.recompute = options_.recompute;
  return options;
}

std::optional<double> MicroBatchRunner::next_loss_scale() {
  optim::LossScaler& scaler = *options_.loss_scaler;
  if (scaler.overflowed() == optim::LossScaler::Verdict::quarantine) return std::nullopt;
  return scaler.scale();
}

bool MicroBatchRunner::quarantine(const LedgerEntry& entry) {
  if (hooks_.on_quarantine) hooks_.on_quarantine(entry.micro, entry.reason);
  return losses_.quarantine(entry.micro.index);
}

}  // namespace accrue::train
