#include "simulation/window_checks.h"

#include <algorithm>

namespace accrue::simulation {

std::string what_is_wrong(batch::Range window, const train::RangesOfRanks& done) {
  std::vector<int> times(static_cast<std::size_t>(window.size()), 0);
  for (const std::vector<batch::Range>& of_rank : done)
    for (const batch::Range& range : of_rank)
      for (std::int64_t sample = range.begin; sample < range.end; ++sample) {
        if (sample < window.begin || sample >= window.end)
          return "sample " + std::to_string(sample) + " is not of the window";
        ++times[static_cast<std::size_t>(sample - window.begin)];
      }
  const auto wrong = std::ranges::find_if(times, [](int count) { return count != 1; });
  if (wrong == times.end()) return "";
  return "sample " + std::to_string(wrong - times.begin()) + " of its window counts " +
         std::to_string(*wrong) + " times";
}

std::vector<distributed::RankStatus> rows_of(std::int64_t window, const train::RangesOfRanks& done,
                                             const std::vector<distributed::Lease>& shares,
                                             const std::vector<double>& seconds) {
  std::vector<distributed::RankStatus> rows;
  for (std::size_t rank = 0; rank < done.size(); ++rank) {
    std::int64_t samples = 0;
    for (const batch::Range& range : done[rank]) samples += range.size();
    const double share = shares.empty() ? 0 : static_cast<double>(shares[rank].count);
    rows.push_back({.window = window,
                    .weight = static_cast<double>(samples),
                    .micro_batches = std::ssize(done[rank]),
                    // The order is that of WindowShares::figures().
                    .figures = {share, seconds[rank]}});
  }
  return rows;
}

}  // namespace accrue::simulation
