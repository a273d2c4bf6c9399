#include "train/run/rank_changes.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "distributed/group/membership/rank_list.h"
#include "observe/jsonl_sink.h"
#include "observe/step_from_line.h"
#include "train/checkpoint/checkpoint.h"
#include "train/ranks/remaining_window.h"
#include "train/run/checkpointer.h"
#include "train/run/recovered_state.h"
#include "train/workload/batch_changes.h"

namespace accrue::train {
namespace {

using distributed::FormerRanks;
using distributed::RanksGone;

/// The records of a group that was rebuilt; a rank that joined runs the same as the most frugal of
/// the others, and has no known speed.
std::vector<RankRecord> records_after(const FormerRanks& former,
                                      const std::vector<RankRecord>& before) {
  const RankRecord frugal = most_frugal_record(before);
  std::vector<RankRecord> records;
  for (const std::optional<std::int64_t>& rank : former)
    records.push_back(rank ? before[static_cast<std::size_t>(*rank)] : frugal);
  return records;
}

std::string how_many(std::int64_t ranks) {
  return ranks == 1 ? "1 rank goes on" : std::to_string(ranks) + " ranks go on";
}

/// Thrown if ranks joined that may not: each ends, and the others rebuild the group without it.
class NewcomersRefused : public RanksGone {
 public:
  using RanksGone::RanksGone;
};

/// Which of `before` ranks are not in the rebuilt group, as they `left`, and which joined it.
std::string what_changed(const FormerRanks& former, std::int64_t before, const char* left) {
  std::string gone, joined;
  for (std::int64_t rank = 0; rank < before; ++rank)
    if (std::ranges::find(former, std::optional(rank)) == former.end())
      distributed::append_rank(gone, rank);
  for (std::int64_t rank = 0; rank < std::ssize(former); ++rank)
    if (!former[static_cast<std::size_t>(rank)]) distributed::append_rank(joined, rank);
  std::string text = gone.empty() ? "" : gone + " of " + std::to_string(before) + ' ' + left + "; ";
  if (!joined.empty()) text += joined + " of " + std::to_string(std::ssize(former)) + " joined; ";
  return text;
}

/// Meets the ranks of a group that some have just joined.
void meet_newcomers(const ChangingRun& run) {
  try {
    run.ranks.begin(run.work, run.data.fingerprint, {});
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::usage) throw;
    throw NewcomersRefused(error);
  }
}

std::vector<batch::Range> ranges_done(const std::optional<StartedWindow>& done) {
  if (!done) return {};
  const WindowMiddle& middle = done->middle;
  return {middle.micro_batches.begin(), middle.micro_batches.begin() + std::ssize(middle.done)};
}

/// The part of a window that each rank has done.
RangesOfRanks tell_what_is_done(const Ranks& ranks, std::int64_t window,
                                const std::vector<batch::Range>& mine) {
  RangesOfRanks of_ranks;
  for (const std::string& text :
       ranks.gather_texts("what is done of window " + std::to_string(window), to_text(mine)))
    of_ranks.push_back(ranges_from_text(text));
  return of_ranks;
}

/// The middle of a window of which this rank has done nothing yet.
StartedWindow nothing_done(const ChangingRun& run, const TrainState& state) {
  return {.middle = {.window = state.window, .micro_batches = {}, .done = {}, .units = state.units},
          .tensors = stored_buffers(*run.work.model)};
}

batch::Range window_ahead(const ChangingRun& run, const TrainState& state) {
  return with_changes(run.work, state.adapt.changes).window(state.window);
}

}  // namespace

std::optional<StartedWindow> part_of_window(const ChangingRun& run, const TrainState& state,
                                            std::optional<StartedWindow> mine) {
  if (mine && mine->middle.window != state.window) mine.reset();  // others have closed it
  const RangesOfRanks done = tell_what_is_done(run.ranks, state.window, ranges_done(mine));
  if (std::ranges::all_of(done, &std::vector<batch::Range>::empty)) return std::nullopt;
  const auto rank = static_cast<std::size_t>(run.ranks.rank());
  StartedWindow part = mine ? *std::move(mine) : nothing_done(run, state);
  part.middle.micro_batch = state.ranks[rank].micro_batch;
  part.middle.micro_batches = part_of_rank(rank, window_ahead(run, state), done, state.ranks);
  return part;
}

namespace {

/// Receives the run's name from the ranks that were there before.
void learn_name(const ChangingRun& run) {
  for (const std::string& name : run.ranks.gather_texts("the name of the run", run.name))
    if (!name.empty()) run.name = name;
}

/// The report of step `step` by a rank that took it without reporting; none if there is none.
std::optional<StepReport> report_of_step(const ChangingRun& run, std::int64_t step) {
  const std::optional<StepReport>& mine = run.unreported_step;
  const bool has_it = mine && mine->step == step;
  for (const std::string& text : run.ranks.gather_texts("the step that was taken last",
                                                        has_it ? observe::to_json_line(*mine) : ""))
    if (std::optional<StepReport> report = observe::step_from_line(text)) return report;
  return std::nullopt;
}

/// `mine` is set to the state that all ranks have.
ChangedRanks take_part(const ChangingRun& run, std::optional<TrainState>& mine,
                       const std::optional<StartedWindow>& done) {
  learn_name(run);
  RecoveredState one = recover_common_state(run, mine);
  std::optional<StartedWindow> part = part_of_window(run, one.state, done);
  std::optional<StepReport> last_step = report_of_step(run, one.state.step);
  return {std::move(one.state),
          std::move(part),
          std::move(last_step),
          {.reason = std::move(one.remark)}};
}

std::string in_words(const std::optional<StartedWindow>& part) {
  if (!part) return "";
  return "; of the window under way this rank keeps " + part->middle.in_words();
}

/// The middle of the whole next window in which only this rank's part is done and all else is left,
/// since only the other ranks have their parts. None if this rank has done nothing.
std::optional<StartedWindow> middle_of_one(const ChangingRun& run, const TrainState& state,
                                           const std::optional<StartedWindow>& mine) {
  const std::vector<batch::Range> done = ranges_done(mine);
  if (done.empty() || mine->middle.window != state.window) return std::nullopt;
  const RankRecord& record = state.ranks[static_cast<std::size_t>(run.ranks.rank())];
  StartedWindow whole = *mine;
  whole.middle.micro_batch = record.micro_batch;
  whole.middle.exclude = run.work.config.data.exclude;
  whole.middle.micro_batches = part_of_rank(0, window_ahead(run, state), {done}, {record});
  return whole;
}

/// A run that waits for other ranks.
struct WaitingRun {
  const TrainState& state;
  const std::optional<StartedWindow>& done;  ///< of the window ahead
  std::string why;                           ///< for people: what happened to the former group
};

/// Reports once that the run waits, and saves what was done. Null: this process has nothing yet.
class Waiting {
 public:
  Waiting(const ChangingRun& run, const WaitingRun* waiting) : run_(run), waiting_(waiting) {}

  bool operator()(std::int64_t ranks, bool is_first) {
    RECORD_USER_SCOPE("ranks: wait");
    if (waiting_ != nullptr && is_first && !std::exchange(is_told_, true)) begin(ranks);
    return !run_.signals.interrupted();
  }

 private:
  void begin(std::int64_t ranks) const {
    const std::string kept = keep();
    run_.tell({.name = "dist",
               .reason = waiting_->why + "; the run waits for others to join" + kept + ": " +
                         std::to_string(ranks) + " of the " +
                         std::to_string(run_.work.config.dist.min_ranks) +
                         " ranks are there that dist.min_ranks asks for",
               .step = waiting_->state.step});
  }

  /// Writes a checkpoint, and returns a remark on it. A single part of the optimizer's state is not
  /// enough for one.
  std::string keep() const {
    const TrainState& state = waiting_->state;
    if (run_.optimizer->sharded() != nullptr || state.step == 0) return "";
    CheckpointContent content = checkpoint_content(state, run_.work.config.model, *run_.work.model,
                                                   run_.optimizer->whole());
    std::string said = ", with a checkpoint";
    if (const auto started = middle_of_one(run_, state, waiting_->done)) {
      CheckpointContent whole = with_middle(content, *started);
      if (lack_of_room(whole, run_.copies.own().root()).empty()) {
        content = std::move(whole);
        said += " that has " + started->middle.in_words() + " of the window under way";
      }
    }
    write_checkpoint(run_.copies.own(), content, [this] {
      if (run_.folders.claim) run_.folders.claim->check_there();
    });
    return said;
  }

  const ChangingRun& run_;
  const WaitingRun* waiting_;
  bool is_told_ = false;
};

}  // namespace

ChangedRanks go_on_with_other_ranks(const ChangingRun& run, TrainState state,
                                    const std::optional<StartedWindow>& done, std::string why) {
  RECORD_USER_SCOPE("ranks: go on");
  std::optional<TrainState> mine;
  if (run.optimizer->has_whole_parameters()) mine = state;
  const char* left = "is gone";
  while (true) {
    try {
      const std::int64_t before = run.ranks.world();
      const WaitingRun waiting{state, done, why};
      const FormerRanks former = run.ranks.renew(Waiting(run, &waiting));
      state.ranks = records_after(former, state.ranks);
      if (mine) mine->ranks = state.ranks;
      if (std::ranges::find(former, std::optional<std::int64_t>()) == former.end())
        run.ranks.begin(run.work, run.data.fingerprint, {});
      else
        meet_newcomers(run);
      ChangedRanks changed = take_part(run, mine, done);
      run.ranks.settle();
      changed.event = {.name = "dist",
                       .reason = why + "; " + what_changed(former, before, left) +
                                 changed.event.reason + how_many(run.ranks.world()) +
                                 " after step " + std::to_string(changed.state.step) +
                                 in_words(changed.part),
                       .step = changed.state.step};
      return changed;
    } catch (const RanksGone& gone) {
      why = gone.received();
      left = dynamic_cast<const NewcomersRefused*>(&gone) != nullptr ? "is refused" : "is gone";
      if (mine) state = *mine;
    }
  }
}

ChangedRanks join_run(const ChangingRun& run) {
  RECORD_USER_SCOPE("ranks: join");
  while (true) {
    try {
      run.ranks.renew(Waiting(run, nullptr));
      run.ranks.begin(run.work, run.data.fingerprint, {});
      std::optional<TrainState> nothing;
      ChangedRanks changed = take_part(run, nothing, std::nullopt);
      run.ranks.settle();
      return changed;
    } catch (const RanksGone&) {
      // The remaining ranks rebuild their group, with this process.
    }
  }
}

}  // namespace accrue::train
