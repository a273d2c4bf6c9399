#include "train/window/pipeline/pipeline_runner.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/memory/caching_allocator.h"
#include "accum/finite_sums.h"
#include "distributed/schedule/pipeline_schedule.h"
#include "train/pass/head_losses.h"
#include "train/window/quarantine_limits.h"

namespace accrue::train {
namespace {

using distributed::PipelinePass;

constexpr const char* kNotFinite = "its loss is not finite";
constexpr const char* kElsewhere = "another stage found it not finite";
constexpr const char* kGradientNotFinite = "its gradient is not finite";
constexpr const char* kKnown = "it was not finite before";

/// The findings that stages exchange after an attempt, before their micro-batches and units.
enum Finding { kLost, kRetries, kFindings };

std::vector<int> most_of_each(const at::Tensor& rows) {
  const at::Tensor most = rows.amax(0);
  const std::int64_t* first = most.const_data_ptr<std::int64_t>();
  return {first, first + most.numel()};
}

}  // namespace

PipelineRunner::InFlight::InFlight(const PipelineStage& stage, MicroRef micro_ref,
                                   batch::MicroBatch made, const ForwardContext& of_micro,
                                   Recompute recompute)
    : ref(std::move(micro_ref)),
      micro(std::move(made)),
      context(of_micro),
      chain(stage.segments, micro, context, recompute,
            stage.is_last() ? ChainRun::Backward::at_once : ChainRun::Backward::later) {}

PipelineRunner::PipelineRunner(const RunnerContext& context, PipelineStage stage,
                               RunnerOptions options)
    : context_(context),
      stage_(std::move(stage)),
      link_(stage_.group),
      options_(std::move(options)),
      losses_(context.model) {
  options_.reduce->set_loss_sums(
      [this] { return loss_sums(); },
      [this](const std::vector<double>& of_all) { return losses_.take_sums(of_all); });
}

PipelineRunner::~PipelineRunner() { options_.reduce->set_loss_sums({}, {}); }

Runner::Opening PipelineRunner::prepare(const WindowRequest& request) {
  losses_.count(request.micro_batches,
                [this](batch::Range range) { return context_.loader.fetch(range); });
  return {};
}

/// Only the last stage runs the losses; the others add the same number of zeros.
std::vector<double> PipelineRunner::loss_sums() const {
  std::vector<double> sums = losses_.sums();
  if (!stage_.is_last()) std::ranges::fill(sums, 0);
  return sums;
}

Filled PipelineRunner::fill(WindowRequest& request, WindowRun& run) {
  begin(request);
  run_passes(run);
  return all_settled(request.to_quarantine) ? Filled::whole : Filled::again;
}

void PipelineRunner::begin(const WindowRequest& request) {
  if (request.fills == 0) {
    audits_ = false;
    units_ = context_.window.buffer()->units();
    micro_batches_ = request.micro_batches;
    tokens_.assign(micro_batches_.size(), 0);
  }
  quarantined_.clear();
  kept_.clear();
  for (std::int64_t micro = 0; micro < std::ssize(micro_batches_); ++micro) {
    const std::int64_t first = micro_batches_[static_cast<std::size_t>(micro)].begin;
    if (request.to_quarantine.contains(first)) {
      quarantined_.insert(micro);
      losses_.quarantine(micro);
    } else {
      kept_.push_back(micro);
    }
  }
  quarantined_here_.clear();
  unreadable_.clear();
  in_ledger_ = 0;
  waiting_seconds_ = 0;
}

void PipelineRunner::run_passes(WindowRun& run) {
  std::vector<batch::Range> ranges;
  for (const std::int64_t micro : kept_)
    ranges.push_back(micro_batches_[static_cast<std::size_t>(micro)]);
  const Stopwatch watch;
  const memory::PeakScope peak;
  context_.loader.prefetch(std::move(ranges));
  const std::int64_t kept = std::ssize(kept_);
  std::vector<PipelinePass> passes;
  if (kept > 0) passes = distributed::pipeline_schedule(stage_.index(), stage_.count(), kept);
  for (const PipelinePass& pass : passes) {
    if (pass.direction == PipelinePass::Direction::forward)
      run_forward(pass.micro_batch);
    else
      run_backward(pass.micro_batch + 1 == kept);
  }
  quarantine_before(std::ssize(micro_batches_));
  const Stopwatch sending;
  link_.finish();
  waiting_seconds_ += sending.seconds();
  run.seconds = watch.seconds();
  run.own_seconds = run.seconds - waiting_seconds_;
  context_.control.worked(run.own_seconds);
  if (stage_.is_last()) {
    run.micro_batches = std::ssize(micro_batches_);
    run.tokens = std::reduce(tokens_.begin(), tokens_.end());
    run.unreadable = unreadable_;
  }
  if (memory::counts_allocations()) run.micro_batch_peak_bytes = peak.peak().live;
}

void PipelineRunner::run_forward(std::int64_t position) {
  RECORD_USER_SCOPE("pipeline: forward");
  // Between micro-batches only budget and limits are followed; several ranks are stopped together,
  // at the end.
  context_.control.follow();
  batch::MicroBatch micro = context_.loader.next();
  const std::int64_t index = kept_[static_cast<std::size_t>(position)];
  tokens_[static_cast<std::size_t>(index)] = micro.tokens;
  const ForwardContext context =
      batch::training_context(micro, context_.seed, context_.window.ledger().window);
  MicroRef ref{.index = index, .sample_ids = micro.sample_ids};
  InFlight& flight = in_flight_.emplace_back(stage_, std::move(ref), std::move(micro), context,
                                             options_.recompute);
  std::ranges::copy(flight.micro.unreadable, std::back_inserter(unreadable_));
  if (flight.micro.is_empty()) return;
  models::Activations input;
  if (!stage_.is_first()) input = receive(stage_.index() - 1, "activations of the stage before");
  models::Activations output = flight.chain.forward(std::move(input));
  flight.outputs = output.size();
  if (stage_.is_last()) {
    flight.output = std::move(output);
    return;
  }
  send(stage_.index() + 1, output, "activations for the stage after");
}

void PipelineRunner::run_backward(bool is_last) {
  RECORD_USER_SCOPE("pipeline: backward");
  InFlight& flight = in_flight_.front();
  quarantine_before(flight.ref.index);
  context_.window.begin(flight.ref);
  options_.reduce->begin_micro_batch(is_last);
  if (flight.micro.is_empty()) {
    // All stages know that it is empty and exchange nothing.
    context_.window.commit(0, 0);
  } else if (!(stage_.is_last() ? backward_from_loss(flight) : backward_from_next(flight))) {
    send_to_previous_stage(true, {});
  }
  ++in_ledger_;
  in_flight_.pop_front();
  context_.log.micro_batch(in_ledger_, std::ssize(micro_batches_));
}

bool PipelineRunner::backward_from_loss(InFlight& flight) {
  const models::Activations output = as_leaves(std::exchange(flight.output, {}));
  const HeadLosses::Total total = HeadLosses(context_.model, losses_.pass_options())
                                      .total(output, flight.micro, flight.context);
  losses_.check(flight.ref, total.heads.weights);
  if (!std::isfinite(total.sum)) {
    quarantine(flight.ref, kNotFinite);
    return false;
  }
  if (!total.roots.empty()) torch::autograd::backward(total.roots, total.gradients);
  backward(flight, gradients_of(output));
  if (settle(flight.ref, total.sum, total.weight)) losses_.note(flight.ref.index, total.heads);
  return true;
}

bool PipelineRunner::backward_from_next(InFlight& flight) {
  std::vector<at::Tensor> received = receive(stage_.index() + 1, "gradients of the stage after");
  const bool is_quarantined = received.front().item<std::uint8_t>() != 0;
  received.erase(received.begin());
  if (is_quarantined) {
    quarantine(flight.ref, kElsewhere);
    return false;
  }
  received.resize(flight.outputs);
  backward(flight, std::move(received));
  settle(flight.ref, 0, 0);
  return true;
}

void PipelineRunner::backward(InFlight& flight, models::Activations gradients) {
  send_to_previous_stage(false, flight.chain.backward(std::move(gradients)));
}

/// Sends first whether the micro-batch is quarantined, then the gradients of that stage's output,
/// unless nothing needs any.
void PipelineRunner::send_to_previous_stage(bool is_quarantined,
                                            const models::Activations& gradients) {
  if (stage_.is_first()) return;
  std::vector<at::Tensor> message{at::full({1}, is_quarantined ? 1 : 0, at::kByte)};
  if (any_defined(gradients)) message.insert(message.end(), gradients.begin(), gradients.end());
  send(stage_.index() - 1, message, "gradients for the stage before");
}

void PipelineRunner::send(std::int64_t to, const std::vector<at::Tensor>& tensors,
                          const char* what) {
  const Stopwatch watch;
  link_.send(to, tensors, what);
  waiting_seconds_ += watch.seconds();
}

std::vector<at::Tensor> PipelineRunner::receive(std::int64_t from, const char* what) {
  const Stopwatch watch;
  std::vector<at::Tensor> tensors = link_.receive(from, what);
  waiting_seconds_ += watch.seconds();
  return tensors;
}

/// Returns whether the micro-batch is part of the window.
bool PipelineRunner::settle(const MicroRef& ref, double loss_sum, double weight) {
  // A window that is lost checks nothing when it commits, and one run has to find everything that
  // is not finite.
  const bool looks = audits_ || context_.window.is_lost();
  if (looks && !sums_are_finite(*context_.window.buffer())) {
    quarantine(ref, kGradientNotFinite);
    return false;
  }
  const MicroStatus status = context_.window.commit(loss_sum, weight);
  if (status == MicroStatus::quarantined) quarantined_here_.emplace(ref.index, kGradientNotFinite);
  return status == MicroStatus::committed;
}

void PipelineRunner::quarantine(const MicroRef& ref, const char* reason) {
  quarantined_here_.emplace(ref.index, reason);
  context_.window.abort(MicroStatus::quarantined, reason);
}

MicroRef PipelineRunner::ref_of(std::int64_t micro) const {
  const batch::Range range = micro_batches_[static_cast<std::size_t>(micro)];
  std::vector<std::int64_t> sample_ids(static_cast<std::size_t>(range.size()));
  std::iota(sample_ids.begin(), sample_ids.end(), range.begin);
  return {.index = micro, .sample_ids = std::move(sample_ids)};
}

/// Quarantines the micro-batches before `micro` that are not run, in the ledger's order.
void PipelineRunner::quarantine_before(std::int64_t micro) {
  for (; in_ledger_ < micro; ++in_ledger_) {
    context_.window.begin(ref_of(in_ledger_));
    context_.window.abort(MicroStatus::quarantined, kKnown);
  }
}

/// The findings that a stage sends the others about its attempt: whether its window is lost, its
/// retries, which micro-batches it quarantined, and its units.
at::Tensor PipelineRunner::findings() const {
  const std::vector<int> units = context_.window.buffer()->units();
  std::vector<std::int64_t> row(kFindings + micro_batches_.size(), 0);
  row[kLost] = context_.window.is_lost() ? 1 : 0;
  row[kRetries] = context_.window.retries();
  for (const auto& [micro, reason] : quarantined_here_)
    row[kFindings + static_cast<std::size_t>(micro)] = 1;
  row.insert(row.end(), units.begin(), units.end());
  return at::tensor(row, at::kLong);
}

/// Takes in and reports the micro-batches that stages quarantined: `found` is [stages,
/// micro-batches]. Returns whether all stages found the same ones.
bool PipelineRunner::learn_of_quarantined(const at::Tensor& found) {
  bool agree = true;
  for (std::int64_t micro = 0; micro < found.size(1); ++micro) {
    const at::Tensor stages = found.select(1, micro).nonzero();
    if (stages.numel() == 0) continue;
    agree = agree && stages.numel() == stage_.count();
    quarantined_.insert(micro);
    // The last stage that found it is closest to the cause.
    const bool is_mine = stages.max().item<std::int64_t>() == stage_.index();
    if (!is_mine) continue;
    const MicroRef ref = ref_of(micro);
    context_.log.quarantine(ref, quarantined_here_.at(micro),
                            context_.loader.samples_of(ref.sample_ids));
  }
  return agree;
}

/// Whether the stages' sums are of the same micro-batches, and another fill would not improve them:
/// with several losses it would, as the factors change with a quarantined micro-batch. If they are
/// not settled, the window is discarded, and the next fill uses what is known now. All stages
/// decide alike.
bool PipelineRunner::all_settled(std::set<std::int64_t>& to_quarantine) {
  const auto micro_batches = static_cast<std::int64_t>(micro_batches_.size());
  const std::size_t known_before = quarantined_.size();
  const at::Tensor rows = stage_.group->all_gather(findings());
  const bool agree = learn_of_quarantined(rows.slice(1, kFindings, kFindings + micro_batches));
  const bool any_lost = rows.select(1, kLost).any().item<bool>();
  const bool any_retried = rows.select(1, kRetries).any().item<bool>();
  const bool more_known = quarantined_.size() > known_before;
  for (const std::int64_t micro : quarantined_)
    to_quarantine.insert(micro_batches_[static_cast<std::size_t>(micro)].begin);
  const bool factors_change = more_known && context_.model.losses().size() > 1;
  if (agree && !factors_change && !(any_lost && (more_known || any_retried))) return true;
  context_.window.discard();
  // The needs of a quarantined micro-batch must not change the units of the others' sums.
  const at::Tensor units_by_stage = rows.slice(1, kFindings + micro_batches);
  if (units_by_stage.size(1) > 0)
    context_.window.buffer()->set_units(more_known ? units_ : most_of_each(units_by_stage));
  return false;
}

Filled PipelineRunner::closed(WindowRequest&, WindowRun& run) {
  accum::Window& window = context_.window;
  require_few_quarantined(window.ledger(), options_.max_quarantined, std::ssize(micro_batches_));
  require_few_unreadable(unreadable_, options_.max_quarantined, micro_batches_,
                         window.ledger().window);
  run.losses = losses_.means();
  if (run.gradient || !window.is_lost()) return Filled::whole;
  // The window is lost for units that ranks made larger at the close, or for a norm that is not
  // finite.
  if (window.retries() == 0 && std::exchange(audits_, true)) return Filled::whole;
  return Filled::again;
}

void PipelineRunner::undo() {
  in_flight_.clear();
  context_.loader.cancel();
}

}  // namespace accrue::train
