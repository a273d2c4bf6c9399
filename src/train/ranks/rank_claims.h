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

/// The weight of samples by their labels, as any rank can compute it.
using WeighSamples = std::function<double(batch::Range samples)>;

/// Checks what ranks state about their shares of a window: the mean divides by the weights
/// that ranks state, so a wrong one would change every step without being noticed. Each rank
/// weighs the share of the next one by its labels, and all compare the results before anyone
/// steps.
class RankClaims {
 public:
  /// `rank` is this one of `world`. Without `weigh`, weights only have to be possible values.
  RankClaims(std::int64_t rank, std::int64_t world, WeighSamples weigh);

  /// This rank's figures for the window, after WindowShares::figures(): the weight of the next
  /// rank's share, and how many samples of its own it left out because it could not read them.
  /// `shares` are those of all ranks; `run` is what this rank did with its own.
  std::vector<double> figures(std::span<const batch::Range> shares, const WindowRun& run) const;

  struct False {
    std::int64_t rank = 0;
    std::string in_words;  ///< what it stated, and what would have been right
  };
  /// The first rank with a false statement, found from the statements of all, by rank.
  std::optional<False> find_false(std::span<const accum::RankStatement> of_ranks) const;

 private:
  std::size_t rank_, world_;
  WeighSamples weigh_;
};

}  // namespace accrue::train
