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
                           std::uint64_t seed, Hooks hooks, WindowRunnerOptions options)
    : model_(model),
      window_(window),
      loader_(loader),
      seed_(seed),
      hooks_(std::move(hooks)),
      options_(options) {
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
  try {
    const Stopwatch watch;
    count_weights(parts);
    loader_.prefetch(parts);
    run_micro_batches(parts, result);
    result.seconds = watch.seconds();
    if (!result.interrupted) close(result);
  } catch (...) {
    window_.discard();
    loader_.cancel();
    throw;
  }
  return result;
}

void WindowRunner::run_micro_batches(const std::vector<batch::Range>& parts, WindowRun& result) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (hooks_.interrupted && hooks_.interrupted()) {
      window_.discard();
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
  if (options_.loss_scaler && result.gradient) options_.loss_scaler->window_done();
}

void WindowRunner::run_micro_batch(MicroRef ref, const batch::MicroBatch& micro) {
  window_.begin(ref);
  const PassResult result = pass(micro);
  check_weights(ref, result.weights);
  if (result.finite) {
    window_.commit(result.loss_sum, result.weight);
  } else {
    window_.abort(MicroStatus::quarantined, loss_not_finite);
  }
}

Loss WindowRunner::replay(const MicroRef& ref) {
  const PassResult result =
      pass(loader_.fetch({ref.sample_ids.front(), ref.sample_ids.back() + 1}));
  if (!result.finite)
    throw runtime_error("replay " + describe(ref), "the finite loss of the first time",
                        "one that is not finite",
                        "a model that depends on parameters, data and context alone");
  return {.sum = at::scalar_tensor(result.loss_sum, at::kDouble), .weight = result.weight};
}

PassResult WindowRunner::pass(const batch::MicroBatch& micro) {
  PassOptions options{.loss_scale = window_.loss_scale()};
  if (totals_) {
    options.factors = totals_->factors();
    options.reference = totals_->reference();
  }
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
  if (!totals_) return false;
  weights_.at(static_cast<std::size_t>(entry.micro.index)).clear();
  return total_weights();
}

void WindowRunner::count_weights(const std::vector<batch::Range>& parts) {
  weights_.clear();
  totals_.reset();
  const std::vector<models::LossHead> heads = model_.losses();
  const auto has_weight = [](const models::LossHead& head) { return bool(head.weight); };
  if (heads.size() < 2 || !std::ranges::all_of(heads, has_weight)) return;
  for (const batch::Range& part : parts) {
    const batch::MicroBatch micro = loader_.fetch(part);
    std::vector<double>& weights = weights_.emplace_back();
    for (const models::LossHead& head : heads) weights.push_back(head.weight(micro));
  }
  total_weights();
}

/// Whether the losses' factors changed. Sums anew, so that a window has the same totals to the bit
/// whether a micro-batch was left out or never there.
bool WindowRunner::total_weights() {
  const std::vector<models::LossHead> heads = model_.losses();
  std::vector<double> totals(heads.size(), 0), coefficients;
  for (const std::vector<double>& weights : weights_)
    for (std::size_t head = 0; head < weights.size(); ++head) totals[head] += weights[head];
  for (const models::LossHead& head : heads) coefficients.push_back(head.coefficient);
  LossTotals now(std::move(totals), std::move(coefficients));
  const bool changed = !totals_ || totals_->factors() != now.factors();
  totals_ = std::move(now);
  return changed;
}

void WindowRunner::check_weights(const MicroRef& ref, const std::vector<double>& seen) const {
  if (!totals_) return;
  const std::vector<double>& expected = weights_.at(static_cast<std::size_t>(ref.index));
  if (seen == expected) return;
  const std::size_t head = static_cast<std::size_t>(
      std::distance(seen.begin(), std::ranges::mismatch(seen, expected).in1));
  throw usage_error("loss '" + model_.losses().at(head).name + "' of " + describe(ref),
                    "the weight that LossHead::weight told, " + std::to_string(expected.at(head)),
                    std::to_string(seen.at(head)), "counting the same terms in both");
}

}  // namespace accrue::train
