#include "accrue/accum/accumulator.h"

#include <cmath>
#include <utility>

#include "accrue/core/error.h"
#include "accum/accumulator_ranks.h"
#include "accum/batch_size.h"
#include "accum/checked_sum.h"
#include "accum/differentiate.h"
#include "accum/single_thread_guard.h"
#include "accum/torch_step.h"

namespace accrue {
namespace {

std::shared_ptr<accum::GradientBuffer> make_buffer(const NamedParameters& parameters,
                                                   const AccumulatorOptions& options) {
  auto buffer = std::make_shared<accum::GradientBuffer>(parameters, options.accumulate,
                                                        options.rounding_seed);
  if (buffer->entries().empty())
    throw usage_error("accumulator", "parameters to train", "none that requires a gradient",
                      "passing model->parameters() before freezing all of them");
  return buffer;
}

accum::WindowTotals totals_of(const LedgerView& ledger) {
  return {.weight = ledger.committed_weight(),
          .loss_sum = ledger.committed_loss_sum(),
          .micro_batches = ledger.count(MicroStatus::committed),
          .quarantined = ledger.count(MicroStatus::quarantined)};
}

void check_options(const AccumulatorOptions& options) {
  if (is_stated(options.batch) && options.micro_batches != 0)
    throw usage_error("accumulator", "one of batch and micro_batches", "both",
                      "leaving micro_batches out: it follows from the batch");
  if (is_stated(options.batch) && !is_batch(count_of(options.batch)))
    throw usage_error("accumulator", "a batch of at least 1 and at most 2^53",
                      std::to_string(count_of(options.batch)), "a batch such as Samples{256}");
  if (options.micro_batches < 0 || options.micro_batches > largest_batch)
    throw usage_error("accumulator", "micro_batches of at least 1 and at most 2^53, or 0: not set",
                      std::to_string(options.micro_batches), "micro_batches = 8");
  if (options.max_quarantined < 0)
    throw usage_error("accumulator", "max_quarantined >= 0",
                      std::to_string(options.max_quarantined), "0 to allow none");
  if (!(options.clip_norm >= 0))
    throw usage_error("accumulator", "clip_norm >= 0", std::to_string(options.clip_norm),
                      "0 for no clipping");
}

/// Shows the mean in `.grad` during a step that reads it. `take_step` is kept by reference.
Accumulator::StepFunction finding_mean_in_grad(const Accumulator::StepFunction& take_step) {
  return [&take_step](accum::MeanGradient&& gradient) {
    const accum::MeanInGrad shown(gradient);
    take_step(std::move(gradient));
  };
}

}  // namespace

Accumulator::Accumulator(const NamedParameters& parameters, AccumulatorOptions options,
                         accum::FindBatchNorms batch_norms)
    : thread_(std::make_unique<accum::SingleThreadGuard>("Accumulator")),
      options_(std::move(options)),
      find_batch_norms_(std::move(batch_norms)),
      window_(make_buffer(parameters, options_)) {
  check_options(options_);
  using Watch = accum::Window::Watch;
  window_.watch_contents(options_.watch_parameters ? Watch::all : Watch::sums);
  if (options_.replay || options_.replay_losses)
    window_.set_replay([this](const MicroRef& micro) { return replay(micro); });
  window_.set_on_quarantine([this](const LedgerEntry& entry) { return quarantine(entry); });
  if (options_.group) ranks_ = std::make_unique<Ranks>(*this, *options_.group);
}

Accumulator::~Accumulator() = default;

Accumulator::Accumulator(const std::vector<at::Tensor>& parameters, AccumulatorOptions options)
    : Accumulator(detail::numbered(parameters), std::move(options)) {}

void Accumulator::open_lazily() {
  if (window_.is_open()) return;
  window_.open(counters_.windows);
  ++counters_.windows;
  if (ranks_) ranks_->begin_window();
  counters_.window_units = 0;
  counters_.losses.reset();
  counters_.loss_weights.clear();
  counters_.first_entries.clear();
  micro_statistics_ = false;
  out_of_memory_ = 0;
  counters_.noise_part.reset();
  since_open_.restart();
}

double Accumulator::units_of(const Loss& loss, const BatchSize& size,
                             const std::vector<std::int64_t>& sample_ids) const {
  if (!is_stated(size)) {
    if (!std::holds_alternative<Samples>(options_.batch)) return loss.weight;
    if (!sample_ids.empty()) return static_cast<double>(sample_ids.size());
    throw usage_error("backward", "the samples of this micro-batch, as the batch is in samples",
                      "a loss alone, whose weight may count tokens",
                      "backward(loss, Samples(n)), or a batch in Tokens");
  }
  if (is_stated(options_.batch) && size.index() != options_.batch.index())
    throw usage_error("backward", "a size in the unit of the batch", "the other unit",
                      "stating both in tokens, or both in samples");
  if (count_of(size) < 0)
    throw usage_error("backward", "a size >= 0", std::to_string(count_of(size)),
                      "the tokens or samples of this micro-batch");
  return static_cast<double>(count_of(size));
}

void Accumulator::backward(Loss loss) { backward(std::move(loss), BatchSize{}); }

void Accumulator::backward(Loss loss, BatchSize size, std::vector<std::int64_t> sample_ids) {
  const accum::SingleThreadGuard::Call call(*thread_, "backward");
  among_ranks<Error>([&] {
    const double sum = checked_sum(loss);
    const double units = units_of(loss, size, sample_ids);
    if (counters_.losses && window_.is_open())
      throw usage_error("backward", "all losses given to expect()", "one loss",
                        "backward(std::vector{first, second})");
    open_lazily();
    add({std::move(loss), sum, units, samples_of(units, size), {}, std::move(sample_ids)});
  });
}

double Accumulator::samples_of(double units, const BatchSize& size) const {
  const BatchSize& stated = is_stated(size) ? size : options_.batch;
  return std::holds_alternative<Samples>(stated) ? units : 0;
}

void Accumulator::add(Micro micro) {
  if (ranks_) ranks_->require_room();
  const bool is_last = std::exchange(next_is_last_, false) || would_fill(micro.units);
  try {
    add_once(micro, is_last);
  } catch (const std::exception& error) {
    if (!can_split(micro, error)) throw;
    run_in_parts(micro, is_last, error);
  }
}

void Accumulator::add_once(Micro& micro, bool is_last) {
  const std::int64_t entry = std::ssize(window_.ledger().entries);
  window_.begin({entry, micro.sample_ids, micro.loss.weight});
  counters_.loss_weights.push_back(micro.weights);
  counters_.first_entries.push_back(micro.first_entry.value_or(entry));
  if (!std::isfinite(micro.sum)) {
    window_.abort(MicroStatus::quarantined, "the loss is " + std::to_string(micro.sum));
    return check_quarantined("backward");
  }
  // A lost window needs no more gradients, but its loop continues to step() as usual.
  if (counts(micro.loss) && !window_.is_lost()) {
    if (ranks_) ranks_->begin_backward(is_last);
    if (ranks_ && is_last && options_.sharing.overlap) window_.leave_sums();
    guarded([&] { differentiate(micro.loss); }, micro.loss);
  }
  if (window_.commit(micro.sum, micro.loss.weight) == MicroStatus::committed) {
    counters_.window_units += micro.units;
    if (ranks_) ranks_->committed(micro.samples, is_last);
    see_part(micro.loss.weight, is_last);
  }
  check_quarantined("backward");
  look_for_batch_norms();
}

/// A sum with weight 0 also has a gradient: if a loss is divided by the batch's positives, a
/// micro-batch may have none of them. A loss without gradient and weight is empty.
bool Accumulator::counts(const Loss& loss) { return loss.weight > 0 || loss.sum.requires_grad(); }

void Accumulator::differentiate(const Loss& loss) const {
  const accum::SingleThreadGuard::Backward within(*thread_);
  accum::differentiate(*window_.buffer(), loss);
}

/// If it fails, the graph of `loss` is freed: a replay may need its memory.
void Accumulator::guarded(const std::function<void()>& backward, Loss& loss) {
  try {
    backward();
  } catch (const std::exception& error) {
    loss.sum.reset();
    window_.abort(MicroStatus::lost, error.what());
    throw;
  }
}

void Accumulator::check_quarantined(const char* call) const {
  const std::int64_t quarantined = ranks_ && !window_.is_open()
                                       ? ranks_->totals().quarantined
                                       : window_.ledger().count(MicroStatus::quarantined);
  if (quarantined > options_.max_quarantined)
    throw runtime_error(call,
                        "at most " + std::to_string(options_.max_quarantined) +
                            " micro-batches of a window without a finite loss and gradient",
                        std::to_string(quarantined) + " of them",
                        "a lower learning rate, clip_norm, or an earlier checkpoint");
}

bool Accumulator::full() const {
  const accum::SingleThreadGuard::Query query(*thread_, "full");
  if (!window_.is_open()) return share_ && share_->size() == 0;
  if (window_.is_lost()) return true;
  if (options_.micro_batches > 0) return micro_batches_in() >= options_.micro_batches;
  const std::optional<std::int64_t> own = own_batch();
  return own && counters_.window_units >= static_cast<double>(*own);
}

StepReport Accumulator::blank_report() const {
  StepReport report;
  report.step = counters_.steps;
  report.time = unix_time();
  report.elapsed = since_start_.seconds();
  const std::int64_t total = std::llround(counters_.total_units + counters_.window_units);
  if (std::holds_alternative<Samples>(options_.batch)) report.samples = total;
  if (std::holds_alternative<Tokens>(options_.batch)) report.tokens = total;
  report.stepped = false;
  return report;
}

StepReport Accumulator::report() const {
  StepReport report = blank_report();
  const accum::WindowTotals totals = ranks_ ? ranks_->totals() : totals_of(window_.ledger());
  report.weight = totals.weight;
  if (report.weight > 0) report.loss = totals.loss_sum / report.weight;
  report.micro_batches = totals.micro_batches;
  report.quarantined = totals.quarantined;
  if (ranks_) ranks_->report(report);
  report.retries = window_.retries() + out_of_memory_;
  if (micro_statistics_) report.batchnorm = "micro";
  if (report.tokens) report.batch_tokens = std::llround(counters_.window_units);
  return report;
}

StepReport Accumulator::step(const StepFunction& take_step) {
  return step_by(finding_mean_in_grad(take_step));
}

StepReport Accumulator::step_by(const StepFunction& take_step) {
  const accum::SingleThreadGuard::Call call(*thread_, "step");
  return among_ranks<std::exception>([&] {
    if (!ranks_ && !window_.is_open())
      throw usage_error("step", "a window with at least one backward()", "none pending",
                        "calling backward() before it, or finish() at the end of the data");
    return close(take_step);
  });
}

StepReport Accumulator::close(const StepFunction& take_step) {
  open_lazily();
  if (!ranks_ && !window_.is_lost() && counters_.losses)
    require_totals(loss_weights(MicroStatus::committed));
  std::optional<accum::MeanGradient> gradient = window_.close(takes_norm());
  check_quarantined("step");
  if (ranks_) counters_.window_units = ranks_->units();
  StepReport result = report();
  counters_.total_units += counters_.window_units;
  counters_.window_units = 0;
  next_is_last_ = false;
  share_.reset();
  if (gradient) {
    look_at_first_window();
    apply(std::move(*gradient), take_step, result);
  } else if (window_.is_lost() || result.micro_batches + result.quarantined > 0) {
    drop(window_.is_lost() ? window_.lost_reason() : "the total weight is 0");
  }
  result.step = counters_.steps;
  result.seconds = since_open_.seconds();
  return result;
}

void Accumulator::apply(accum::MeanGradient gradient, const StepFunction& take_step,
                        StepReport& result) {
  read_noise(gradient, result);
  if (options_.on_mean_gradient) accum::show_to(options_.on_mean_gradient, gradient);
  if (takes_norm()) {
    const double norm = gradient.norm();
    // The window's own gradient is finite: close() checked it.
    if (!std::isfinite(norm))
      return lose("on_mean_gradient left a gradient whose norm is " + std::to_string(norm));
    result.grad_norm = norm;
  }
  if (options_.clip_norm > 0) gradient.clip(options_.clip_norm);
  const Stopwatch watch;
  take_step(std::move(gradient));
  result.optimizer_seconds = watch.seconds();
  ++counters_.steps;
  result.stepped = true;
}

void Accumulator::lose(const std::string& reason) {
  window_.lose(reason);
  drop(reason);
}

void Accumulator::drop(const std::string& reason) const {
  take_grads_away();
  emit("dropped", reason);
}

void Accumulator::take_grads_away() const {
  for (const auto& entry : window_.buffer()->entries()) entry.parameter.mutable_grad().reset();
}

StepReport Accumulator::finish(const StepFunction& take_step) {
  return finish_by(finding_mean_in_grad(take_step));
}

StepReport Accumulator::finish_by(const StepFunction& take_step) {
  const accum::SingleThreadGuard::Call call(*thread_, "finish");
  if (ranks_) return among_ranks<std::exception>([&] { return ranks_->finish(take_step); });
  return window_.is_open() ? step_by(take_step) : blank_report();
}

void Accumulator::discard() {
  const accum::SingleThreadGuard::Call call(*thread_, "discard");
  // The other ranks have opened or will open a window with this number.
  if (ranks_ && window_.is_open()) --counters_.windows;
  window_.discard();
  counters_.window_units = 0;
  next_is_last_ = false;
}

bool Accumulator::pending() const {
  const accum::SingleThreadGuard::Query query(*thread_, "pending");
  return window_.is_open();
}

const accum::Window& Accumulator::current_window() const {
  const accum::SingleThreadGuard::Query query(*thread_, "current_window");
  return window_;
}

void Accumulator::next_is_last() {
  const accum::SingleThreadGuard::Call call(*thread_, "next_is_last");
  next_is_last_ = true;
}

AccumulatorScope Accumulator::window() {
  const accum::SingleThreadGuard::Call call(*thread_, "window");
  if (window_.is_open())
    throw usage_error("window", "no open window", "one with micro-batches pending",
                      "step() or finish() before it");
  return AccumulatorScope(this);
}

AccumulatorState Accumulator::state() const {
  const accum::SingleThreadGuard::Call call(*thread_, "state");
  AccumulatorState state = counters_;
  state.window = window_.state();
  return state;
}

void Accumulator::load(const AccumulatorState& state) {
  const accum::SingleThreadGuard::Call call(*thread_, "load");
  window_.load(state.window);
  counters_ = state;
  counters_.window = {};
  since_open_.restart();
}

AccumulatorScope::~AccumulatorScope() {
  try {
    accumulator_->discard();
  } catch (const Error&) {
    // Another thread is in a call: it will find the window that was left open.
  }
}

void AccumulatorScope::backward(Loss loss, BatchSize size, std::vector<std::int64_t> sample_ids) {
  accumulator_->backward(std::move(loss), size, std::move(sample_ids));
}

}  // namespace accrue
