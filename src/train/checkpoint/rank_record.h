#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/recompute.h"

namespace accrue::train {

/// The values that a checkpoint keeps for each rank of a run.
struct RankRecord {
  std::int64_t micro_batch = 1;  ///< in samples, from the rank's own plan
  Recompute recompute = Recompute::none;
  std::vector<double> seconds_per_sample = {};  ///< distributed::PaceEstimate::observed

  bool operator==(const RankRecord&) const = default;
};

/// Whether all ranks have the same micro-batch size.
bool have_one_size(const std::vector<RankRecord>& ranks);

/// The micro-batch sizes of the ranks, for people.
std::string sizes_in_words(const std::vector<RankRecord>& ranks);

}  // namespace accrue::train
