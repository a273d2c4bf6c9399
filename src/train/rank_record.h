#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/recompute.h"

namespace accrue::train {

/// What a checkpoint keeps of each rank of a run.
struct RankRecord {
  std::int64_t micro_batch = 1;  ///< samples, as its own plan says
  Recompute recompute = Recompute::none;
  std::vector<double> seconds_per_sample = {};  ///< dist::PaceEstimate::observed

  bool operator==(const RankRecord&) const = default;
};

/// Whether all have micro-batches of the same size.
bool have_one_size(const std::vector<RankRecord>& ranks);

/// What `world` ranks go on with: as many as were `kept` have their own records. Others have no
/// known speed, and the micro-batch and recomputation that fitted on all who were kept, which are
/// not none; so have as many where all must be `alike` and were not.
std::vector<RankRecord> records_for(std::int64_t world, const std::vector<RankRecord>& kept,
                                    bool alike = false);

/// The sizes of their micro-batches, for people.
std::string sizes_in_words(const std::vector<RankRecord>& ranks);

}  // namespace accrue::train
