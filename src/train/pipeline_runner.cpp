#include "pipeline_runner.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/dist/pipeline_schedule.h"
#include "accrue/memory/caching_allocator.h"
#include "head_losses.h"
#include "window_totals.h"

namespace accrue::train {
namespace {

using dist::PipelinePass;

constexpr const char* kNotFinite = "its loss is not finite";
constexpr const char* kElsewhere = "another stage found it not finite";
constexpr const char* kSumsNotFinite = "its gradient is not finite";
constexpr const char* kKnown = "it was not finite before";

}  // namespace

PipelineRunner::InFlight::InFlight(const PipelineStage& stage, MicroRef micro_ref,
                                   batch::MicroBatch made, const ForwardContext& of_micro,
                                   Recompute recompute)
    : ref(std::move(micro_ref)),
      micro(std::move(made)),
      context(of_micro),
      chain(stage.segments, micro, context, recompute,
            stage.is_last() ? ChainRun::Backward::at_once : ChainRun::Backward::later) {}

PipelineRunner::PipelineRunner(models::Trainable& model, accum::Window& window,
                               data::Loader& loader, std::uint64_t seed, PipelineStage stage,
                               WindowHooks hooks, WindowRunnerOptions options)
    : model_(model),
      window_(window),
      loader_(loader),
      seed_(seed),
      stage_(std::move(stage)),
      link_(stage_.group),
      hooks_(std::move(hooks)),
      options_(std::move(options)) {}

WindowRun PipelineRunner::run(std::int64_t index, batch::Range range, std::int64_t micro) {
  const std::vector<batch::Range> parts = batch::split(range, micro);
  known_bad_.clear();
  audits_ = false;
  tokens_.assign(parts.size(), 0);
  for (std::int64_t retries = 0;; ++retries) {
    try {
      WindowRun result = attempt(index, parts);
      const bool may_mend = !audits_ || window_.retries() > 0;
      if (result.gradient || !window_.is_lost() || !may_mend) {
        result.retries += retries;
        return result;
      }
      audits_ = true;
    } catch (...) {
      window_.discard();
      in_flight_.clear();
      loader_.cancel();
      throw;
    }
  }
}

/// Until all stages have the same micro-batches in their sums; then the window is closed.
WindowRun PipelineRunner::attempt(std::int64_t index, const std::vector<batch::Range>& parts) {
  parts_ = parts;
  while (true) {
    WindowRun result;
    window_.open(index);
    run_passes(result);
    if (all_settled()) {
      close(result);
      return result;
    }
    window_.discard();
  }
}

void PipelineRunner::run_passes(WindowRun& result) {
  kept_.clear();
  found_bad_.clear();
  told_ = 0;
  waiting_seconds_ = 0;
  std::vector<batch::Range> ranges;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto micro = static_cast<std::int64_t>(i);
    if (known_bad_.contains(micro)) continue;
    kept_.push_back(micro);
    ranges.push_back(parts_[i]);
  }
  const Stopwatch watch;
  const memory::PeakScope peak;
  loader_.prefetch(std::move(ranges));
  const auto kept = static_cast<std::int64_t>(kept_.size());
  std::vector<PipelinePass> passes;
  if (kept > 0) passes = dist::pipeline_schedule(stage_.index(), stage_.count(), kept);
  for (const PipelinePass& pass : passes) {
    if (pass.direction == PipelinePass::Direction::forward)
      run_forward(pass.micro_batch);
    else
      run_backward(pass.micro_batch + 1 == kept);
  }
  leave_out_known_bad(static_cast<std::int64_t>(parts_.size()));
  const Stopwatch sending;
  link_.finish();
  waiting_seconds_ += sending.seconds();
  result.seconds = watch.seconds();
  if (stage_.is_last()) {
    result.micro_batches = static_cast<std::int64_t>(parts_.size());
    result.tokens = std::reduce(tokens_.begin(), tokens_.end());
  }
  if (memory::caching_allocator_installed()) result.micro_batch_peak_bytes = peak.peak().live;
}

void PipelineRunner::run_forward(std::int64_t position) {
  RECORD_USER_SCOPE("pipeline: forward");
  // Between micro-batches the budget is looked at; several ranks are stopped together, at the end.
  if (hooks_.interrupted) hooks_.interrupted();
  batch::MicroBatch micro = loader_.next();
  const std::int64_t index = kept_[static_cast<std::size_t>(position)];
  tokens_[static_cast<std::size_t>(index)] = micro.tokens;
  const ForwardContext context = batch::training_context(micro, seed_, window_.ledger().window);
  MicroRef ref{.index = index, .sample_ids = micro.sample_ids};
  InFlight& flight = in_flight_.emplace_back(stage_, std::move(ref), std::move(micro), context,
                                             options_.recompute);
  models::Activations input;
  if (!stage_.is_first()) input = receive(stage_.index() - 1, "activations of the stage before");
  models::Activations output = flight.chain.forward(std::move(input));
  flight.outputs = output.size();
  if (stage_.is_last()) {
    flight.output = std::move(output);
    return;
  }
  const Stopwatch watch;
  link_.send(stage_.index() + 1, output, "activations for the stage after");
  waiting_seconds_ += watch.seconds();
}

void PipelineRunner::run_backward(bool is_last) {
  RECORD_USER_SCOPE("pipeline: backward");
  InFlight& flight = in_flight_.front();
  leave_out_known_bad(flight.ref.index);
  window_.begin(flight.ref);
  if (options_.reduce != nullptr) options_.reduce->begin_micro_batch(is_last);
  const bool is_good = stage_.is_last() ? backward_from_loss(flight) : backward_from_next(flight);
  if (!is_good) tell_stage_before(true, {});
  ++told_;
  in_flight_.pop_front();
  if (hooks_.on_micro_batch) hooks_.on_micro_batch(told_, static_cast<std::int64_t>(parts_.size()));
}

bool PipelineRunner::backward_from_loss(InFlight& flight) {
  const models::Activations output = as_leaves(std::exchange(flight.output, {}));
  const HeadLosses::Total total =
      HeadLosses(model_, {}).total(output, flight.micro, flight.context);
  if (!std::isfinite(total.sum)) {
    leave_out(flight.ref, kNotFinite);
    return false;
  }
  if (!total.roots.empty()) torch::autograd::backward(total.roots, total.gradients);
  backward(flight, gradients_of(output));
  settle(flight.ref, total.sum, total.weight);
  return true;
}

bool PipelineRunner::backward_from_next(InFlight& flight) {
  std::vector<at::Tensor> received = receive(stage_.index() + 1, "gradients of the stage after");
  const bool is_bad = received.front().item<bool>();
  received.erase(received.begin());
  if (is_bad) {
    found_bad_.push_back(flight.ref.index);
    window_.abort(MicroStatus::quarantined, kElsewhere);
    return false;
  }
  received.resize(flight.outputs);
  backward(flight, std::move(received));
  settle(flight.ref, 0, 0);
  return true;
}

void PipelineRunner::backward(InFlight& flight, models::Activations gradients) {
  tell_stage_before(false, flight.chain.backward(std::move(gradients)));
}

/// First whether the micro-batch is bad, then the gradients of what that stage passed on: none of
/// those where nothing wants one.
void PipelineRunner::tell_stage_before(bool is_bad, const models::Activations& gradients) {
  if (stage_.is_first()) return;
  std::vector<at::Tensor> message{at::full({1}, is_bad, at::kBool).to(at::kByte)};
  if (any_defined(gradients)) message.insert(message.end(), gradients.begin(), gradients.end());
  const Stopwatch watch;
  link_.send(stage_.index() - 1, message, "gradients for the stage before");
  waiting_seconds_ += watch.seconds();
}

std::vector<at::Tensor> PipelineRunner::receive(std::int64_t from, const char* what) {
  const Stopwatch watch;
  std::vector<at::Tensor> tensors = link_.receive(from, what);
  waiting_seconds_ += watch.seconds();
  return tensors;
}

void PipelineRunner::settle(const MicroRef& ref, double loss_sum, double weight) {
  const MicroStatus status = window_.commit(loss_sum, weight);
  const bool is_bad = status == MicroStatus::quarantined ||
                      (audits_ && found_bad_.empty() && !sums_are_finite(*window_.buffer()));
  if (!is_bad) return;
  found_bad_.push_back(ref.index);
  if (hooks_.on_quarantine) hooks_.on_quarantine(ref, kSumsNotFinite);
}

void PipelineRunner::leave_out(const MicroRef& ref, const std::string& reason) {
  found_bad_.push_back(ref.index);
  window_.abort(MicroStatus::quarantined, reason);
  if (hooks_.on_quarantine) hooks_.on_quarantine(ref, reason);
}

/// Those before `micro`, in the ledger's order.
void PipelineRunner::leave_out_known_bad(std::int64_t before) {
  for (; told_ < before; ++told_) {
    const batch::Range part = parts_[static_cast<std::size_t>(told_)];
    MicroRef ref{.index = told_};
    for (std::int64_t id = part.begin; id < part.end; ++id) ref.sample_ids.push_back(id);
    window_.begin(std::move(ref));
    window_.abort(MicroStatus::quarantined, kKnown);
  }
}

/// Whether no stage has found what the others' sums hold, or would do better another time. All
/// decide alike.
bool PipelineRunner::all_settled() {
  const std::size_t known_before = known_bad_.size();
  at::Tensor mine = at::zeros({static_cast<std::int64_t>(parts_.size()) + 2}, at::kLong);
  std::int64_t* row = mine.mutable_data_ptr<std::int64_t>();
  row[0] = window_.is_lost() ? 1 : 0;
  row[1] = window_.retries();
  for (const std::int64_t micro : found_bad_) row[micro + 2] = 1;
  const at::Tensor rows = stage_.group->all_gather(mine);
  const at::Tensor found_by = rows.sum(0);
  const std::int64_t* found = found_by.const_data_ptr<std::int64_t>();
  bool agree = true;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (found[i + 2] == 0) continue;
    known_bad_.insert(static_cast<std::int64_t>(i));
    agree = agree && found[i + 2] == stage_.count();
  }
  const bool any_lost = found[0] > 0;
  const bool would_be_better = known_bad_.size() > known_before || found[1] > 0;
  return agree && !(any_lost && would_be_better);
}

void PipelineRunner::close(WindowRun& result) {
  RECORD_USER_SCOPE("close window");
  const Stopwatch watch;
  tell_figures(*options_.reduce, hooks_, result.seconds - waiting_seconds_, result);
  result.gradient = window_.close();
  result.closing_seconds = watch.seconds();
  require_few_quarantined(window_.ledger(), options_.max_quarantined,
                          static_cast<std::int64_t>(parts_.size()));
  take_ledger(window_, result);
  take_totals(*options_.reduce, result);
  result.quarantined /= stage_.count();
}

}  // namespace accrue::train
