#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "optim/parallel_ranges.h"

namespace accrue::optim {

/// One parameter's update: how many elements it has, and how many bytes of the parameter, its
/// gradient and its states they take.
struct TaskSize {
  std::size_t elements = 0;
  std::size_t bytes = 0;
};

/// A task is divided at multiples of this many elements. It is a multiple of the blocks of coded
/// states and of for_ranges(), so that the division changes no bits.
inline constexpr std::size_t kPieceGrain = std::size_t{1} << 18;

/// Divides tasks, in order, into groups of about `bytes` each. A task that is larger is divided; a
/// group has at least kPieceGrain elements of one task, or what is left of it.
std::vector<std::vector<TaskRange>> state_pieces(std::span<const TaskSize> tasks,
                                                 std::size_t bytes);

}  // namespace accrue::optim
