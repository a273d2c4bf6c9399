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

  /// What this rank tells of the window behind WindowShares::figures(): what the next one's share
  /// weighs, and how many samples of its own it left out, as it could not read them. `shares` are
  /// those of all ranks; `run` is what this rank did of its own.
  std::vector<double> figures(std::span<const batch::Range> shares, const WindowRun& run) const;

  struct False {
    std::int64_t rank = 0;
    std::string in_words;  ///< what it said, and what would have held
  };
  /// The first rank whose words do not hold, from what all of them state, by rank.
  std::optional<False> find_false(std::span<const accum::RankStatement> of_ranks) const;

 private:
  std::size_t rank_, world_;
  WeighSamples weigh_;
};

}  // namespace accrue::train
