#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace accrue::optim {

/// Elements of a range: enough that starting it costs nothing, and few enough that threads can
/// divide a small model.
inline constexpr std::size_t kRangeElements = std::size_t{1} << 15;

/// Calls run(task, begin, end) over ranges of `sizes[task]` elements of every task, on all threads.
template <class Run>
void for_ranges(const std::vector<std::size_t>& sizes, const Run& run) {
  struct Range {
    std::size_t task, begin, end;
  };
  std::vector<Range> ranges;
  for (std::size_t task = 0; task < sizes.size(); ++task)
    for (std::size_t begin = 0; begin < sizes[task]; begin += kRangeElements)
      ranges.push_back({task, begin, std::min(begin + kRangeElements, sizes[task])});
  at::parallel_for(0, static_cast<std::int64_t>(ranges.size()), 1,
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t i = first; i < last; ++i) {
                       const Range& range = ranges[static_cast<std::size_t>(i)];
                       run(range.task, range.begin, range.end);
                     }
                   });
}

}  // namespace accrue::optim
