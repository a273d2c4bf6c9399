#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace accrue::optim {

/// Elements of a range: enough that starting it costs nothing, and few enough that threads can
/// divide a small model.
inline constexpr std::size_t kRangeElements = std::size_t{1} << 15;

/// Elements [begin, end) of one task.
struct TaskRange {
  std::size_t task, begin, end;
  bool operator==(const TaskRange&) const = default;
};

/// Calls run(task, begin, end) over parts of at most kRangeElements of these ranges, on all
/// threads.
template <class Run>
void for_ranges(std::span<const TaskRange> of_tasks, const Run& run) {
  std::vector<TaskRange> ranges;
  for (const TaskRange& whole : of_tasks)
    for (std::size_t begin = whole.begin; begin < whole.end; begin += kRangeElements)
      ranges.push_back({whole.task, begin, std::min(begin + kRangeElements, whole.end)});
  at::parallel_for(0, static_cast<std::int64_t>(ranges.size()), 1,
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t i = first; i < last; ++i) {
                       const TaskRange& range = ranges[static_cast<std::size_t>(i)];
                       run(range.task, range.begin, range.end);
                     }
                   });
}

/// The same over tasks of `sizes[task]` elements.
template <class Run>
void for_ranges(const std::vector<std::size_t>& sizes, const Run& run) {
  std::vector<TaskRange> tasks;
  for (std::size_t task = 0; task < sizes.size(); ++task) tasks.push_back({task, 0, sizes[task]});
  for_ranges(std::span<const TaskRange>(tasks), run);
}

}  // namespace accrue::optim
