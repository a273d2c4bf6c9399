#pragma once

#include <span>
#include <string>
#include <vector>

#include "batch/schedule.h"
#include "train/checkpoint/rank_record.h"

namespace accrue::train {

/// Samples of a window, in micro-batches; by rank, what each has.
using RangesOfRanks = std::vector<std::vector<batch::Range>>;

/// What of `window` is in none of what ranks have `done`: their shares of it, by rank, in
/// micro-batches of `micro_batch` samples that lie as in the undivided window where those done do.
/// Each rank gets as many, one behind the other; the first ranks take the remainder.
///
/// It is pure. Throws a runtime Error if ranks have done the same samples, or others than the
/// window's: they would count twice, or not at all.
RangesOfRanks divide_what_is_left(batch::Range window, const RangesOfRanks& done,
                                  std::int64_t micro_batch);

/// What rank `rank` goes on with: what it has done, then its share of what is left in micro-batches
/// of its own size. All ranks divide alike, in the smallest size of all `records`; those that are
/// `allowed` no speed, by rank, get none of it. Empty: all work.
std::vector<batch::Range> part_of_rank(std::size_t rank, batch::Range window,
                                       const RangesOfRanks& done,
                                       const std::vector<RankRecord>& records,
                                       const std::vector<double>& allowed = {});

/// Ranges as ranks tell them each other.
std::string to_text(std::span<const batch::Range> ranges);
/// Reads back what to_text() wrote. Throws a runtime Error if that is something else.
std::vector<batch::Range> ranges_from_text(const std::string& text);

}  // namespace accrue::train
