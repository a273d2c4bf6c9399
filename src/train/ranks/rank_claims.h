#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/accum/reduction.h"
#include "batch/schedule.h"
#include "train/window/runner.h"

namespace accrue::train {

/// The weight of samples by their labels, as any rank can tell it.
using WeighSamples = std::function<double(batch::Range samples)>;

/// What ranks state of their shares of a window, held against what others know of them: the mean
/// divides by the weights that ranks state, so a wrong one would change every step and show in
/// none. Each rank weighs the share of the next one by its labels, and all compare, before anybody
/// steps.
class RankClaims {
 public:
  /// `rank` is this one of `world`. Without `weigh` weights only have to be possible.
  RankClaims(std::int64_t rank, std::int64_t world, WeighSamples weigh);

  /// What this rank adds to the window's rank_sums. `shares` are those of all ranks; `run` is what
  /// this rank did of its own.
  std::vector<double> rank_sums(std::span<const batch::Range> shares, const WindowRun& run) const;
  /// How many these are.
  std::size_t figures() const { return 2 * world_; }

  struct False {
    std::int64_t rank = 0;
    std::string in_words;  ///< what it said, and what would have held
  };
  /// The first rank whose words do not hold: what all of them `stated`, against the rank_sums that
  /// they added up.
  std::optional<False> find_false(const accum::WindowTotals& stated,
                                  std::span<const double> sums) const;

 private:
  std::size_t rank_, world_;
  WeighSamples weigh_;
};

}  // namespace accrue::train
