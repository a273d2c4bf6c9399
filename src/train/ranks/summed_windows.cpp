#include "train/ranks/summed_windows.h"

#include <iterator>

#include "accrue/core/units.h"
#include "core/joint_state.h"
#include "train/checkpoint/checkpoint.h"
#include "train/ranks/rank_events.h"
#include "train/window/close_window.h"

namespace accrue::train {

SummedWindows::SummedWindows(const ParallelismContext& context)
    : ranks_(context.ranks),
      sharded_(context.sharded),
      shards_(context.shards),
      log_(context.log),
      control_(context.control),
      notice_(context.notice),
      may_change_(context.may_change),
      compresses_(context.config.dist.compress != distributed::Compression::none),
      reduce_(context.ranks.make_reduce(
          context.config, context.buffer,
          context.shards == nullptr ? std::vector<bool>() : context.shards->divided())) {}

void SummedWindows::close(accum::Window& window, WindowRun& run) {
  const bool asks_to_join = may_change_ && ranks_.is_first() && ranks_.have_applicants();
  const std::vector<double> sums{asks_to_join ? 1.0 : 0.0,
                                 static_cast<double>(log_.noted().size())};
  reduce_->set_figures(figures(run));
  const Asked asked{.to_stop = control_.asked_to_stop(),
                    .for_checkpoint = notice_ != nullptr && notice_->is_given()};
  close_shared_window(window, *reduce_, asked, sums, run);
  // The first rank takes its notice when the checkpoint is written.
  if (asked.for_checkpoint && !ranks_.is_first()) notice_->take();
  if (window.is_unfinished()) report_events(window.ledger().window, run);
}

void SummedWindows::window_done(std::int64_t index, const WindowRun& run) {
  others_ask_to_join_ = *std::prev(run.rank_sums.end(), 2) > 0;
  report_events(index, run);
}

void SummedWindows::report_events(std::int64_t window, const WindowRun& run) {
  if (run.rank_sums.back() > 0)
    log_.tell(gather_events(ranks_, log_, "events of window " + std::to_string(window)));
}

void SummedWindows::report(const WindowRun& run, StepReport& report) const {
  report.reduce_seconds = run.together->reduce_seconds;
  report.reduce_exposed_seconds = run.together->exposed_seconds;
  report.wire_bytes = ranks_.wire_bytes() - sent_before_;
}

bool SummedWindows::writes_together() const { return compresses_ || sharded_ != nullptr; }

StoredTensors SummedWindows::gather_optimizer() const {
  if (sharded_ == nullptr) return {};
  if (ranks_.is_first()) return sharded_->whole_state();
  sharded_->hand_over();
  return {};
}

/// Each rank looks at its part, so that no rank needs all of them for it.
StoredTensors SummedWindows::gather_model(const NamedParameters& file_tensors) const {
  if (shards_ == nullptr) return {};
  const std::string found = shards_->not_finite();
  if (!ranks_.all_true(found.empty()))
    throw ModelNotFinite(Error::Kind::runtime, "write a checkpoint", "a model of finite numbers",
                         (found.empty() ? "a parameter of another rank" : "'" + found + "'") +
                             " with a NaN or an infinity",
                         "a lower optim.lr or a longer warm-up; --resume goes on from the "
                         "checkpoint before, which is finite");
  if (ranks_.is_first()) return shards_->gathered(file_tensors);
  shards_->hand_over(file_tensors);
  return {};
}

std::string SummedWindows::remark(std::int64_t) const {
  if (shards_ == nullptr) return {};
  const distributed::ParameterShards::Bytes bytes = shards_->bytes();
  if (bytes.whole == 0)
    return "dist.shard = \"all\" divides nothing here: every parameter is too small, and whole on "
           "each rank";
  return "of " + format_bytes(bytes.whole) + " of parameters and gradients' sums this rank keeps " +
         format_bytes(bytes.own) + ", and holds at most " + format_bytes(bytes.beside) +
         " more while a segment runs";
}

NamedParameters SummedWindows::state(TrainState&) {
  NamedParameters state;
  append_state(state, compression_prefix, reduce_->state());
  return state;
}

/// Loads compression's state; a checkpoint of one process, or one written after a failure, has
/// none.
void SummedWindows::load_state(const StoredTensors& of_ranks, const TrainState&) {
  const StoredTensors kept = state_under(compression_prefix, of_ranks);
  if (!kept.empty()) reduce_->load_state(kept);
}

}  // namespace accrue::train
