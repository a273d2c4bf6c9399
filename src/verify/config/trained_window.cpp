#include "verify/config/trained_window.h"

#include <utility>

#include "train/run/make_runner.h"
#include "train/workload/workload.h"

namespace accrue::proof {
namespace {

/// Micro-batches that training would leave out are refused here, whatever their number.
train::Config with_any_quarantined(train::Config config) {
  config.batch.max_quarantined = 1;
  return config;
}

}  // namespace

NotFinite not_finite(const std::string& what, const std::string& where, bool of_plain_pass) {
  return NotFinite(
      usage_error("verify", "finite losses and gradients", what + " that is not, " + where,
                  "looking at the data of this batch, or a model that does not overflow"),
      of_plain_pass);
}

class TrainedWindow::Watch final : public Observer {
 public:
  explicit Watch(TrainedWindow& window) : window_(window) {}
  void on_micro_batch(std::int64_t done, std::int64_t of) override {
    window_.micro_batch_done(done, of);
  }

 private:
  TrainedWindow& window_;
};

TrainedWindow::TrainedWindow(const TrainedWindowContext& context, train::RunnerOptions options)
    : buffer_(context.buffer),
      interleaves_(train::is_layered(context.config, context.model)),
      observers_{std::make_shared<Watch>(*this)},
      log_(observers_, state_, true),
      window_(buffer_),
      parallelism_(context.parallelism) {
  options.reduce = parallelism_.reduction();
  if (options.shards != nullptr) {
    divided_ = options.shards->divided();
    slice_ = options.reduce->shard()->slice();
  }
  window_.set_reduction(options.reduce);
  runner_ = train::make_runner(
      with_any_quarantined(context.config),
      {context.model, window_, context.loader, context.seed, log_, control_, retries_},
      std::move(options), parallelism_.stage());
}

TrainedWindow::~TrainedWindow() = default;

void TrainedWindow::micro_batch_done(std::int64_t done, std::int64_t of) {
  if (interleaves_ && done < of) return;
  require_finite();
  if (buffer_->folds()) return;
  if (!errors_ || done == 1 || interleaves_) errors_.emplace(*buffer_, divided_, slice_);
  errors_->added(interleaves_ ? of : 1);
  if (!errors_->not_finite().empty()) throw not_finite("a gradient", "of " + errors_->not_finite());
}

void TrainedWindow::require_finite() const {
  for (const LedgerEntry& entry : window_.ledger().entries) {
    if (entry.status != MicroStatus::quarantined) continue;
    if (interleaves_) throw not_finite("a loss", "in a window in layered order");
    const std::vector<std::int64_t>& samples = entry.micro.sample_ids;
    throw not_finite(
        entry.reason.find("gradient") == std::string::npos ? "a loss" : "a gradient",
        "of samples " + std::to_string(samples.front()) + " to " + std::to_string(samples.back()));
  }
}

train::WindowRun TrainedWindow::run(std::int64_t index, const Parts& parts) {
  errors_.reset();
  train::WindowRun run = train::run_window({window_, *runner_, parallelism_, retries_, log_},
                                           {.index = index, .micro_batches = parts});
  require_finite();
  if (run.lost_reason.empty()) return run;
  throw LostWindow(run.lost_reason);
}

std::vector<double> TrainedWindow::accumulation_errors() const {
  if (errors_) return errors_->bounds();
  return std::vector<double>(buffer_->folds() ? 0 : buffer_->entries().size());
}

}  // namespace accrue::proof
