#pragma once

#include <span>
#include <string>
#include <vector>

#include "batch/schedule.h"
#include "train/checkpoint/rank_record.h"

namespace accrue::train {

/// For each rank, its samples of a window, in micro-batches.
using RangesOfRanks = std::vector<std::vector<batch::Range>>;

/// Divides the samples of `window` that no rank has `done` among the ranks: consecutive equal
/// numbers of micro-batches, the first ranks take the remainder. They have `micro_batch` samples,
/// and align with those of the undivided window if the finished ones do.
///
/// A pure function. Throws a runtime Error if two ranks have done the same samples, or one has done
/// samples outside the window: they would count twice, or not at all.
RangesOfRanks divide_remaining_window(batch::Range window, const RangesOfRanks& done,
                                      std::int64_t micro_batch);

/// The work with which rank `rank` continues: the micro-batches it has done, then its share of the
/// rest in its own size. All ranks divide alike, by the smallest size in `records`. Ranks whose
/// `allowed` speed is 0 get no share of the rest; if `allowed` is empty, all work.
std::vector<batch::Range> part_of_rank(std::size_t rank, batch::Range window,
                                       const RangesOfRanks& done,
                                       const std::vector<RankRecord>& records,
                                       const std::vector<double>& allowed = {});

/// Ranges as text for exchange between ranks.
std::string to_text(std::span<const batch::Range> ranges);
/// Reads back what to_text() wrote. Throws a runtime Error if the text is something else.
std::vector<batch::Range> ranges_from_text(const std::string& text);

}  // namespace accrue::train
