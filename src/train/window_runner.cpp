#include "window_runner.h"

#include <algorithm>
#include <cmath>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"

namespace accrue::train {
namespace {

constexpr const char* loss_not_finite = "its loss is not finite";

std::string describe_quarantined(const LedgerView& ledger) {
  std::string text;
  for (const LedgerEntry& entry : ledger.entries) {
    if (entry.status != MicroStatus::quarantined) continue;
    text += (text.empty() ? "" : "; ") + describe(entry.micro) + ": " + entry.reason;
  }
  return text;
}

}  // namespace

std::int64_t allowed_quarantined(double limit, std::int64_t micro_batches) {
  if (limit <= 0) return 0;
  const double allowed = std::floor(limit * static_cast<double>(micro_batches));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(allowed));
}

std::string describe(const MicroRef& micro) {
  std::string text = "micro-batch " + std::to_string(micro.index);
  if (micro.sample_ids.empty()) return text;
  text += " (samples " + std::to_string(micro.sample_ids.front());
  if (micro.sample_ids.size() > 1) text += " to " + std::to_string(micro.sample_ids.back());
  return text + ")";
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

void take_ledger(const accum::Window& window, WindowRun& result) {
  const LedgerView ledger = window.ledger();
  result.loss_sum = ledger.committed_loss_sum();
  result.weight = ledger.committed_weight();
  result.quarantined = ledger.count(MicroStatus::quarantined);
  result.retries = window.retries();
  result.loss_scale = window.loss_scale();
  result.lost_reason = window.lost_reason();
}

WindowRunner::WindowRunner(models::Trainable& model, accum::Window& window, data::Loader& loader,
                           std::uint64_t seed, WindowHooks hooks, WindowRunnerOptions options)
    : model_(model),
      window_(window),
      loader_(loader),
      seed_(seed),
      hooks_(std::move(hooks)),
      options_(options),
      losses_(model),
      at_open_(model),
      settled_(model) {
  window_.set_replay([this](const MicroRef& ref) { return replay(ref); });
  window_.set_on_quarantine([this](const LedgerEntry& entry) { return leave_out(entry); });
  if (options_.loss_scaler) window_.set_on_overflow([this] { return next_loss_scale(); });
}

WindowRunner::~WindowRunner() {
  window_.set_replay({});
  window_.set_on_quarantine({});
  window_.set_on_overflow({});
}

WindowRun WindowRunner::run(std::int64_t index, batch::Range range, std::int64_t micro) {
  const std::vector<batch::Range> parts = batch::split(range, micro);
  WindowRun result;
  result.micro_batches = micro_batches_ = static_cast<std::int64_t>(parts.size());
  window_.open(index, options_.loss_scaler ? options_.loss_scaler->scale() : 1);
  at_open_.keep();
  settled_.keep();
  try {
    const Stopwatch watch;
    losses_.count(parts, [this](batch::Range part) { return loader_.fetch(part); });
    loader_.prefetch(parts);
    run_micro_batches(parts, result);
    result.seconds = watch.seconds();
    if (!result.interrupted) close(result);
  } catch (...) {
    window_.discard();
    at_open_.restore();
    loader_.cancel();
    throw;
  }
  return result;
}

void WindowRunner::run_micro_batches(const std::vector<batch::Range>& parts, WindowRun& result) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (hooks_.interrupted && hooks_.interrupted()) {
      window_.discard();
      at_open_.restore();
      loader_.cancel();
      result.interrupted = true;
      return;
    }
    const batch::MicroBatch micro = loader_.next();
    run_micro_batch({.index = static_cast<std::int64_t>(i), .sample_ids = micro.sample_ids}, micro);
    require_few_quarantined(window_.ledger(), options_.max_quarantined, micro_batches_);
    result.tokens += micro.tokens;
    if (hooks_.on_micro_batch)
      hooks_.on_micro_batch(static_cast<std::int64_t>(i) + 1, micro_batches_);
  }
}

void WindowRunner::close(WindowRun& result) {
  const Stopwatch watch;
  result.gradient = window_.close();
  result.closing_seconds = watch.seconds();
  require_few_quarantined(window_.ledger(), options_.max_quarantined, micro_batches_);
  take_ledger(window_, result);
  if (window_.ledger().count(MicroStatus::committed) == 0) at_open_.restore();
  if (options_.loss_scaler && result.gradient) options_.loss_scaler->window_done();
}

void WindowRunner::run_micro_batch(MicroRef ref, const batch::MicroBatch& micro) {
  replayed_ = false;
  window_.begin(ref);
  const PassResult result = pass(micro);
  losses_.check(ref, result.weights);
  auto status = MicroStatus::quarantined;
  if (result.finite) {
    status = window_.commit(result.loss_sum, result.weight);
  } else {
    window_.abort(status, loss_not_finite);
  }
  if (status == MicroStatus::committed || replayed_) {
    settled_.keep();
  } else {
    settled_.restore();
  }
}

Loss WindowRunner::replay(const MicroRef& ref) {
  replayed_ = true;
  if (is_first_committed(ref)) at_open_.restore();
  const PassResult result =
      pass(loader_.fetch({ref.sample_ids.front(), ref.sample_ids.back() + 1}));
  if (!result.finite)
    throw runtime_error("replay " + describe(ref), "the finite loss of the first time",
                        "one that is not finite",
                        "a model that depends on parameters, data and context alone");
  return {.sum = at::scalar_tensor(result.loss_sum, at::kDouble), .weight = result.weight};
}

/// Replays begin with it.
bool WindowRunner::is_first_committed(const MicroRef& ref) const {
  const auto entries = window_.ledger().entries;
  const auto first = std::ranges::find(entries, MicroStatus::committed, &LedgerEntry::status);
  return first != entries.end() && first->micro.index == ref.index;
}

PassResult WindowRunner::pass(const batch::MicroBatch& micro) {
  PassOptions options = losses_.pass_options();
  options.loss_scale = window_.loss_scale();
  return forward_backward(model_, micro,
                          batch::training_context(micro, seed_, window_.ledger().window), options);
}

std::optional<double> WindowRunner::next_loss_scale() {
  optim::LossScaler& scaler = *options_.loss_scaler;
  if (scaler.overflowed() == optim::LossScaler::Verdict::quarantine) return std::nullopt;
  return scaler.scale();
}

bool WindowRunner::leave_out(const LedgerEntry& entry) {
  if (hooks_.on_quarantine) hooks_.on_quarantine(entry.micro, entry.reason);
  return losses_.leave_out(entry.micro.index);
}

}  // namespace accrue::train
