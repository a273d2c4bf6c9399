#include "train/window/micro_batch_runner.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "memory/out_of_memory.h"
#include "train/pass/head_losses.h"
#include "train/pass/recorded_pass.h"
#include "train/pass/run_micro_batch.h"
#include "train/window/noise_meter.h"
#include "train/window/quarantine_limits.h"
#include "train/window/rank_losses.h"

namespace accrue::train {
namespace {

/// The first micro-batch of the request that is not done.
std::ptrdiff_t first_left(const WindowRequest& request) {
  return request.started ? std::ssize(request.started->middle.done) : 0;
}

}  // namespace

MicroBatchRunner::MicroBatchRunner(const RunnerContext& context, RunnerOptions options)
    : context_(context),
      options_(std::move(options)),
      losses_(context.model, context.window.buffer()->needs_total_weight()),
      at_open_(context.model),
      settled_(context.model) {
  accum::Window& window = context_.window;
  window.set_replay([this](const MicroRef& ref) { return replay(ref); });
  window.set_on_quarantine([this](const LedgerEntry& entry) { return quarantine(entry); });
  if (options_.loss_scaler) window.set_on_overflow([this] { return next_loss_scale(); });
  if (options_.reduce != nullptr)
    options_.reduce->set_loss_sums(
        [this] { return losses_.sums(); },
        [this](const std::vector<double>& of_all) { return losses_.take_sums(of_all); });
}

MicroBatchRunner::~MicroBatchRunner() {
  context_.window.set_replay({});
  context_.window.set_on_quarantine({});
  context_.window.set_on_overflow({});
  if (options_.reduce != nullptr) options_.reduce->set_loss_sums({}, {});
}

WindowLosses::Fetch MicroBatchRunner::fetch() const {
  return [&loader = context_.loader](batch::Range range) { return loader.fetch(range); };
}

Runner::Opening MicroBatchRunner::prepare(const WindowRequest& request) {
  losses_.count(request.micro_batches, fetch());
  if (request.started && options_.loss_scaler && request.started->middle.loss_scaler)
    options_.loss_scaler->load(*request.started->middle.loss_scaler);
  if (options_.reduce != nullptr) share_losses();
  return {.loss_scale = options_.loss_scaler ? options_.loss_scaler->scale() : 1,
          .total_weight = losses_.total_weight()};
}

/// Passes the total weights of all ranks to the losses.
void MicroBatchRunner::share_losses() {
  const std::vector<double> mine = losses_.sums();
  if (mine.empty()) return;
  if (!losses_of_all_) losses_of_all_ = add_up_over_ranks(*options_.reduce, mine);
  losses_.take_sums(*losses_of_all_);
}

Filled MicroBatchRunner::fill(WindowRequest& request, WindowRun& run) {
  at_open_.keep();
  const double reducing_before = reducing_seconds();
  filling_.restart();
  keeping_seconds_ = 0;
  waited_before_ = context_.control.waited_seconds();
  if (!request.was_told) filled_before_ = 0;
  run.went_on = request.went_on;
  if (request.started) take_up(request, run);
  settled_.keep();
  context_.loader.prefetch(
      {request.micro_batches.begin() + first_left(request), request.micro_batches.end()});
  unread_.clear();
  const Filled filled = run_micro_batches(request, run);
  if (filled == Filled::whole && !context_.window.is_lost()) {
    settle_losses(run);
    require_few_bad(request, run);
  }
  run.seconds = seconds_so_far(run);
  if (options_.noise != nullptr) run.noise_sums = options_.noise->sums();
  run.own_seconds = run.seconds - (reducing_seconds() - reducing_before);
  return filled;
}

Filled MicroBatchRunner::run_micro_batches(WindowRequest& request, WindowRun& run) {
  std::size_t kept = 0;  // a run that pauses does not save again what it has saved
  for (auto i = static_cast<std::size_t>(first_left(request)); i < request.micro_batches.size();) {
    run.micro_batches = std::ssize(request.micro_batches);
    const bool stops = stops_here();
    if (i > kept && is_to_be_kept(stops, run)) {
      keep(request, run);
      kept = i;
    }
    if (stops) return Filled::interrupted;
    if (closes_early(run)) {
      leave(i, request, run);
      return Filled::whole;
    }
    if (context_.control.waits()) continue;
    if (!run_or_undo(i, request, run)) continue;
    if (context_.window.is_torn()) return Filled::whole;
    ++i;
    require_few_bad(request, run);
    context_.log.micro_batch(static_cast<std::int64_t>(i), run.micro_batches);
  }
  return Filled::whole;
}

/// Reads the remaining losses, all at once: the only time that a window waits for its device.
void MicroBatchRunner::settle_losses(WindowRun& run) {
  if (unread_.empty()) return;
  std::vector<at::Tensor> sums;
  for (const Unread& unread : unread_) sums.push_back(unread.sums);
  const at::Tensor on_host = at::stack(sums).cpu();
  const PassOptions options = pass_options();
  const HeadLosses losses(context_.model, options);
  std::vector<accum::Window::SettledLoss> settled;
  for (std::size_t i = 0; i < unread_.size(); ++i) {
    Unread& unread = unread_[i];
    const double total = losses.fill_in(on_host[static_cast<std::int64_t>(i)], unread.heads);
    if (std::isfinite(total)) {
      losses_.note(unread.index, unread.heads);
      // For work still on a device it is not known when it ended.
      if (unread.sums.is_cpu()) run.micro_batch_seconds.push_back(unread.seconds);
    }
    settled.push_back({unread.index, total * options.weighting});
  }
  unread_.clear();
  context_.window.settle_losses(settled);
}

void MicroBatchRunner::require_few_bad(const WindowRequest& request, const WindowRun& run) const {
  require_few_quarantined(context_.window.ledger(), options_.max_quarantined, run.micro_batches);
  require_few_unreadable(run.unreadable, options_.max_quarantined, request.micro_batches,
                         request.index);
}

bool MicroBatchRunner::stops_here() const {
  context_.control.follow();
  // A gradient that is folded into the optimizer stays there: such a window is completed first.
  return context_.control.stops_here() && !context_.window.buffer()->is_between_steps();
}

/// Returns false if micro-batch `position` ran out of memory and was undone: it, or what the
/// request then has in its place, must be run again.
bool MicroBatchRunner::run_or_undo(std::size_t position, WindowRequest& request, WindowRun& run) {
  accum::Window& window = context_.window;
  std::vector<batch::Range>& micro_batches = request.micro_batches;
  MicroRef ref{.index = static_cast<std::int64_t>(position)};
  const std::size_t entries_before = window.ledger().entries.size();
  try {
    const batch::MicroBatch micro = context_.loader.next();
    ref.sample_ids = micro.sample_ids;
    const memory::PeakScope peak;
    run_micro_batch(ref, micro, request, run);
    const bool was_reduced = !micro.unreadable.empty() || context_.retries.count() > 0;
    if (was_reduced && micro.inputs.defined() && micro.inputs.dim() > 0 &&
        micro.inputs.size(0) == 1)
      require_running_statistics(context_.model, micro.unreadable, request.index);
    if (memory::counts_allocations())
      run.micro_batch_peak_bytes =
          std::max(run.micro_batch_peak_bytes.value_or(0), peak.peak().live);
    run.tokens += micro.tokens;
    run.unreadable.insert(run.unreadable.end(), micro.unreadable.begin(), micro.unreadable.end());
    context_.retries.passed();
    return true;
  } catch (const std::exception& error) {
    const bool began = window.ledger().entries.size() > entries_before;
    if (!context_.retries.enabled() || began != window.in_micro_batch() ||
        !memory::is_out_of_memory(error))
      throw;
    if (began) undo_micro_batch();
    if (window.is_lost()) throw;
    const auto decision =
        context_.retries.failed(describe(ref), micro_batches[position].size(), error);
    context_.loader.cancel();
    if (decision.action == memory::Recovery::Action::split)
      split_from(position, micro_batches, decision.micro_batch);
    context_.loader.prefetch(
        {micro_batches.begin() + static_cast<std::ptrdiff_t>(position), micro_batches.end()});
    return false;
  }
}

void MicroBatchRunner::undo_micro_batch() {
  if (options_.recorded != nullptr) options_.recorded->stop("memory ran out");
  context_.window.abort(MicroStatus::lost, "it ran out of memory");
  if (!context_.window.is_lost() && !replayed_) settled_.restore();
}

void MicroBatchRunner::split_from(std::size_t position, std::vector<batch::Range>& micro_batches,
                                  std::int64_t micro) {
  const std::vector<batch::Range> rest =
      batch::split_again(std::span(micro_batches).subspan(position), micro);
  micro_batches.resize(position);
  micro_batches.insert(micro_batches.end(), rest.begin(), rest.end());
  losses_.split_from(position, rest, fetch());
}

Filled MicroBatchRunner::closed(WindowRequest& request, WindowRun& run) {
  if (context_.window.is_unfinished()) return keep_with_others(request, run);
  const LedgerView ledger = context_.window.ledger();
  require_few_quarantined(ledger, options_.max_quarantined, std::ssize(request.micro_batches));
  if (ledger.count(MicroStatus::committed) == 0) at_open_.restore();
  losses_of_all_.reset();
  run.losses = losses_.means();
  if (options_.loss_scaler && run.gradient) options_.loss_scaler->window_done();
  return Filled::whole;
}

void MicroBatchRunner::undo() {
  at_open_.restore();
  context_.loader.cancel();
}

void MicroBatchRunner::run_micro_batch(const MicroRef& ref, const batch::MicroBatch& micro,
                                       const WindowRequest& request, WindowRun& run) {
  RECORD_USER_SCOPE("micro-batch");
  replayed_ = false;
  const bool is_last = ref.index + 1 == std::ssize(request.micro_batches);
  const bool is_part = shows_noise(ref, is_last);
  // Sums that are being added to the other ranks' no longer belong to this rank alone.
  if (options_.reduce != nullptr) options_.reduce->begin_micro_batch(is_last && !is_part);
  if (!ref.sample_ids.empty() && request.to_quarantine.contains(ref.sample_ids.front())) {
    context_.window.begin(ref);
    context_.window.abort(MicroStatus::quarantined, "its gradient was not finite before");
    return;
  }
  PassOptions options = pass_options();
  // Ranks exchange their losses before their sums are added, and a rank that is to be slow has to
  // know how long it worked: in these cases losses are read at once.
  const bool is_slow = context_.control.allowed_speed() < 1;
  options.leave_losses_on_device = options_.reduce == nullptr && !is_slow;
  options.recorded = options_.recorded;
  const double reducing_before = reducing_seconds();
  const Stopwatch watch;
  const MicroBatchRun ran = train::run_micro_batch(context_.window, context_.model, ref, micro,
                                                   context_of(micro), options, &losses_);
  const double seconds = watch.seconds() - (reducing_seconds() - reducing_before);
  context_.control.worked(seconds);
  if (options_.recorded != nullptr) report_recordings();
  if (ran.status == MicroStatus::committed) {
    if (is_part) options_.noise->see_part(ran.pass.weight, context_.window.loss_scale());
    if (ran.pass.unread.defined()) {
      unread_.push_back({ref.index, ran.pass.unread, ran.pass.heads, seconds});
    } else {
      run.micro_batch_seconds.push_back(seconds);
      losses_.note(ref.index, ran.pass.heads);
    }
  }
  if (ran.status == MicroStatus::committed || replayed_) {
    settled_.keep();
  } else {
    settled_.restore();
  }
}

void MicroBatchRunner::report_recordings() {
  if (const std::string news = options_.recorded->take_news(); !news.empty())
    context_.log.event("graphs", news);
}

/// Whether the sums after this micro-batch are a part of the window whose noise can be seen.
bool MicroBatchRunner::shows_noise(const MicroRef& ref, bool is_last) const {
  if (options_.noise == nullptr || ref.index > 0) return false;
  return !is_last || (options_.reduce != nullptr && options_.noise->decides());
}

Loss MicroBatchRunner::replay(const MicroRef& ref) {
  replayed_ = true;
  if (is_first_committed(ref)) at_open_.restore();
  const batch::MicroBatch micro = context_.loader.fetch_draws(ref.sample_ids);
  const PassResult result =
      forward_backward(context_.model, micro, context_of(micro), pass_options());
  if (!result.finite)
    throw runtime_error("replay " + describe(ref), "the finite loss of the first time",
                        "one that is not finite",
                        "a model that depends on parameters, data and context alone");
  return {.sum = at::scalar_tensor(result.loss_sum, at::kDouble), .weight = result.weight};
}

/// Whether a replay begins with this micro-batch.
bool MicroBatchRunner::is_first_committed(const MicroRef& ref) const {
  const auto entries = context_.window.ledger().entries;
  const auto first = std::ranges::find(entries, MicroStatus::committed, &LedgerEntry::status);
  return first != entries.end() && first->micro.index == ref.index;
}

ForwardContext MicroBatchRunner::context_of(const batch::MicroBatch& micro) const {
  return batch::training_context(micro, context_.seed, context_.window.ledger().window);
}

PassOptions MicroBatchRunner::pass_options() const {
  PassOptions options = losses_.pass_options();
  options.loss_scale = context_.window.loss_scale();
  options.recompute = options_.recompute;
  options.weighting = options_.weighting;
  return options;
}

std::optional<double> MicroBatchRunner::next_loss_scale() {
  optim::LossScaler& scaler = *options_.loss_scaler;
  if (scaler.overflowed() == optim::LossScaler::Verdict::quarantine) return std::nullopt;
  return scaler.scale();
}

void MicroBatchRunner::report_quarantined(const LedgerEntry& quarantined) const {
  context_.log.quarantine(quarantined.micro, quarantined.reason,
                          context_.loader.samples_of(quarantined.micro.sample_ids));
}

bool MicroBatchRunner::quarantine(const LedgerEntry& entry) {
  report_quarantined(entry);
  return losses_.quarantine(entry.micro.index);
}

}  // namespace accrue::train
