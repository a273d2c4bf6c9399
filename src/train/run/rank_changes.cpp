#include "train/run/rank_changes.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "accrue/core/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/ranks/shared_state.h"

namespace accrue::train {
namespace {

using distributed::FormerRanks;
using distributed::RanksGone;

/// The records of a group that was made anew; who joined runs what the most frugal of the others
/// does, and has no known speed.
std::vector<RankRecord> records_after(const FormerRanks& former,
                                      const std::vector<RankRecord>& before) {
  const RankRecord& frugal = *std::ranges::min_element(before, {}, [](const RankRecord& record) {
    return std::pair(record.micro_batch, -static_cast<int>(record.recompute));
  });
  std::vector<RankRecord> records;
  for (const std::optional<std::int64_t>& rank : former)
    records.push_back(rank ? before[static_cast<std::size_t>(*rank)]
                           : RankRecord{frugal.micro_batch, frugal.recompute});
  return records;
}

std::string how_many(std::int64_t ranks) {
  return ranks == 1 ? "1 rank goes on" : std::to_string(ranks) + " ranks go on";
}

/// Who of `before` ranks is not in the group that was made anew, and how many joined it.
std::string what_changed(const FormerRanks& former, std::int64_t before) {
  std::string gone;
  for (std::int64_t rank = 0; rank < before; ++rank)
    if (std::ranges::find(former, std::optional(rank)) == former.end())
      gone += (gone.empty() ? "rank " : ", rank ") + std::to_string(rank);
  const auto joined = std::ranges::count(former, std::optional<std::int64_t>());
  std::string text = gone.empty() ? "" : gone + " of " + std::to_string(before) + " is gone; ";
  if (joined > 0) text += std::to_string(joined) + " joined; ";
  return text;
}

/// One that joined and differs ends by itself; the others make their group anew without it.
void meet(const ChangingRun& run, bool comes_late) {
  try {
    run.ranks.begin(run.work, run.data_fingerprint, {});
  } catch (const Error& error) {
    if (comes_late || error.kind() != Error::Kind::usage) throw;
    throw RanksGone(error);
  }
}

TrainState take_part(const ChangingRun& run, const std::optional<TrainState>& mine) {
  meet(run, !mine);
  SharedState shared = share_state(run.ranks, mine, *run.work.model, run.optimizer);
  if (shared.was_sent) run.ranks.check_state(run.work, run.optimizer, shared.state.step);
  return std::move(shared.state);
}

/// Tells once that the run waits, and keeps what was done.
class Waiting {
 public:
  Waiting(const ChangingRun& run, const TrainState* state) : run_(run), state_(state) {}

  bool operator()(std::int64_t ranks) {
    if (state_ != nullptr && run_.ranks.is_first() && !std::exchange(is_told_, true)) begin(ranks);
    return !run_.signals.interrupted();
  }

 private:
  void begin(std::int64_t ranks) const {
    if (state_->step > 0)
      write_checkpoint(run_.directory, checkpoint_content(*state_, run_.work.config.model,
                                                          *run_.work.model, run_.optimizer));
    run_.tell(
        {.name = "dist",
         .reason = "the run waits for others to join, with a checkpoint: " + std::to_string(ranks) +
                   " of the " + std::to_string(run_.work.config.dist.min_ranks) +
                   " ranks are there that dist.min_ranks asks for",
         .step = state_->step});
  }

  const ChangingRun& run_;
  const TrainState* state_;  ///< null: this process has nothing yet
  bool is_told_ = false;
};

}  // namespace

ChangedRanks go_on_with_other_ranks(const ChangingRun& run, TrainState state, std::string why) {
  while (true) {
    try {
      const std::int64_t before = run.ranks.world();
      const FormerRanks former = run.ranks.renew(Waiting(run, &state));
      state.ranks = records_after(former, state.ranks);
      TrainState shared = take_part(run, state);
      const std::int64_t step = shared.step;
      return {std::move(shared),
              {.name = "dist",
               .reason = why + "; " + what_changed(former, before) + how_many(run.ranks.world()) +
                         " after step " + std::to_string(step),
               .step = step}};
    } catch (const RanksGone& gone) {
      why = gone.received();
    }
  }
}

TrainState join_run(const ChangingRun& run) {
  while (true) {
    try {
      run.ranks.renew(Waiting(run, nullptr));
      return take_part(run, std::nullopt);
    } catch (const RanksGone&) {
      // Those that are left make their group anew, with this process.
    }
  }
}

}  // namespace accrue::train
