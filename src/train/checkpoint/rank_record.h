#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/recompute.h"

namespace accrue::train {

/// What a checkpoint keeps of each rank of a run.
struct RankRecord {
  std::int64_t micro_batch = 1;  ///< in samples, as the rank's own plan says
  Recompute recompute = Recompute::none;
  std::vector<double> seconds_per_sample = {};  ///< distributed::PaceEstimate::observed

  bool operator==(const RankRecord&) const = default;
};

/// Whether all ranks have micro-batches of one size.
bool have_one_size(const std::vector<RankRecord>& ranks);

/// The sizes of the ranks' micro-batches, for people.
std::string sizes_in_words(const std::vector<RankRecord>& ranks);

}  // namespace accrue::train
