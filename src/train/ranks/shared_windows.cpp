#include "train/ranks/shared_windows.h"

#include <algorithm>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/distributed/group.h"
#include "train/workload/workload.h"

namespace accrue::train {

SharedWindows::SharedWindows(const ParallelismContext& context)
    : SummedWindows(context),
      leases_(context.ranks.rank(), context.state.ranks,
              context.config.dist.shares == Shares::speed),
      claims_(context.ranks.rank(), context.ranks.world(), context.weigh),
      middles_(context.ranks, context.state.ranks),
      is_layered_(is_layered(context.config, context.model)),
      follows_speed_(context.config.dist.shares == Shares::speed) {}

bool SharedWindows::follow_limits(const std::vector<double>& speeds) {
  if (is_layered_ || !follows_speed_) return SummedWindows::follow_limits(speeds);
  leases_.limit(speeds);
  middles_.limit(speeds);
  return std::ranges::any_of(speeds, [](double speed) { return speed > 0; });
}

batch::Range SharedWindows::share(batch::Range window) {
  begin_window();
  const batch::Range mine = leases_.share(window);
  if (leases_.change()) log().event("leases", *leases_.change());
  middles_.begin(window);
  return mine;
}

void SharedWindows::close(accum::Window& window, WindowRun& run) {
  SummedWindows::close(window, run);
  middles_.closed(totals().of_ranks);
  was_closed_early_ |= window.is_unfinished();
}

void SharedWindows::window_done(std::int64_t index, const WindowRun& run) {
  // A window that ranks divided twice shows nothing of their speeds.
  if (!std::exchange(was_closed_early_, false)) leases_.observe(totals().of_ranks);
  check_claims(index);
  SummedWindows::window_done(index, run);
}

/// A rank with a false statement ends, and the others continue without it if they can.
void SharedWindows::check_claims(std::int64_t index) const {
  const auto found = claims_.find_false(totals().of_ranks);
  if (!found) return;
  const Error refused = runtime_error(
      "divide by the weight of window " + std::to_string(index), "weights of the ranks' samples",
      found->in_words, "another machine, or the others' build of the program, for this rank");
  if (may_change() && found->rank != ranks().rank()) throw distributed::RanksGone(refused);
  throw refused;
}

void SharedWindows::report(const WindowRun& run, StepReport& report) const {
  SummedWindows::report(run, report);
  for (const batch::Range& share : leases_.shares()) report.rank_samples.push_back(share.size());
}

std::vector<double> SharedWindows::figures(const WindowRun& run) const {
  std::vector<double> figures = leases_.figures(run.own_seconds);
  const std::vector<double> claims = claims_.figures(leases_.shares(), run);
  figures.insert(figures.end(), claims.begin(), claims.end());
  return figures;
}

}  // namespace accrue::train
