#include "train/window/layered/layered_runner.h"

#include <utility>

#include "accrue/core/clock.h"
#include "train/window/quarantine_limits.h"
#include "train/window/rank_losses.h"

namespace accrue::train {

LayeredRunner::LayeredRunner(const RunnerContext& context, RunnerOptions options)
    : context_(context),
      options_(std::move(options)),
      losses_(context.model),
      segment_state_(*context.window.buffer(), context.model.segments()),
      divided_(*context.window.buffer(), options_.shards, options_.reduce),
      layered_(
          context.model, context.window,
          [&loader = context.loader](batch::Range range) { return loader.fetch(range); },
          context.seed, layered_options()) {
  context_.window.set_replay([this](const MicroRef&) { return layered_.replay(); });
  if (options_.reduce != nullptr)
    options_.reduce->set_loss_sums(
        [this] { return losses_.sums(); },
        [this](const std::vector<double>& of_all) { return losses_.take_sums(of_all); });
}

LayeredRunner::~LayeredRunner() {
  context_.window.set_replay({});
  if (options_.reduce != nullptr) options_.reduce->set_loss_sums({}, {});
}

LayeredOptions LayeredRunner::layered_options() {
  AllReduce all_reduce;
  if (options_.reduce != nullptr) all_reduce = [this](at::Tensor& sums) { add_up(sums); };
  LayeredOptions layered{
      .cut_folder = options_.cut_folder,
      .all_reduce = std::move(all_reduce),
      .losses = [this] { return losses_of_attempt(); },
      .interrupted = [this] { return stops_here(); },
      .on_progress = [this](std::int64_t done, std::int64_t all) { report_progress(done, all); },
      .on_quarantine = [this](const MicroRef& micro,
                              const std::string& reason) { quarantine(micro, reason); },
      .window_statistics = options_.window_statistics};
  segment_state_.attach_to(layered);
  divided_.attach_to(layered);
  return layered;
}

/// Adds the statistics' sums over the ranks that share the window.
void LayeredRunner::add_up(const at::Tensor& sums) {
  const Stopwatch watch;
  options_.reduce->add_up(sums);
  reducing_seconds_ += watch.seconds();
}

/// The ranks make each attempt together, and each without what has been quarantined so far.
PassOptions LayeredRunner::losses_of_attempt() {
  if (options_.reduce != nullptr)
    losses_.take_sums(add_up_over_ranks(*options_.reduce, losses_.sums()));
  return losses_.pass_options();
}

bool LayeredRunner::stops_here() const {
  context_.control.wait_out();
  return context_.control.stops_here();
}

/// Reports progress in micro-batches, each of which takes several passes.
void LayeredRunner::report_progress(std::int64_t passes_done, std::int64_t passes) {
  const std::int64_t done = passes_done * micro_batches_ / passes;
  if (done == told_) return;
  told_ = done;
  context_.log.micro_batch(done, micro_batches_);
}

/// Each attempt without a micro-batch costs a window, so too many quarantined ones are reported at
/// once.
void LayeredRunner::quarantine(const MicroRef& micro, const std::string& reason) {
  context_.log.quarantine(micro, reason, context_.loader.samples_of(micro.sample_ids));
  losses_.quarantine(micro.index);
  require_few_quarantined(context_.window.ledger(), options_.max_quarantined, micro_batches_);
}

Runner::Opening LayeredRunner::prepare(const WindowRequest& request) {
  losses_.count(request.micro_batches,
                [this](batch::Range range) { return context_.loader.fetch(range); });
  return {};
}

Filled LayeredRunner::fill(WindowRequest& request, WindowRun& run) {
  micro_batches_ = std::ssize(request.micro_batches);
  told_ = 0;
  reducing_seconds_ = 0;
  const double waited_before = context_.control.waited_seconds();
  const Stopwatch watch;
  const LayeredRun filled = layered_.run(request.index, request.micro_batches);
  divided_.leave();
  run.tokens = filled.tokens;
  run.micro_batches = micro_batches_;
  losses_.note(0, filled.heads);
  run.unreadable = filled.unreadable;
  run.seconds = watch.seconds() - (context_.control.waited_seconds() - waited_before);
  run.own_seconds = run.seconds - reducing_seconds_;
  context_.control.worked(run.own_seconds);
  require_few_unreadable(run.unreadable, options_.max_quarantined, request.micro_batches,
                         request.index);
  if (!run.unreadable.empty() || context_.retries.count() > 0)
    require_running_statistics(context_.model, run.unreadable, request.index);
  return filled.interrupted ? Filled::interrupted : Filled::whole;
}

Filled LayeredRunner::closed(WindowRequest&, WindowRun& run) {
  divided_.leave();  // the window may have run again
  if (context_.window.ledger().count(MicroStatus::committed) == 0) undo();
  run.losses = losses_.means();
  return Filled::whole;
}

void LayeredRunner::undo() { layered_.restore_buffers(); }

}  // namespace accrue::train
