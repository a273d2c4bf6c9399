#include "optim/state_pieces.h"

#include <algorithm>

namespace accrue::optim {
namespace {

std::size_t bytes_of(const TaskSize& task, std::size_t elements) {
  const auto share = static_cast<double>(elements) / static_cast<double>(task.elements);
  return static_cast<std::size_t>(static_cast<double>(task.bytes) * share);
}

/// How many of the elements from `begin` on fit into `bytes`: all that are left, or a multiple of
/// the grain.
std::size_t elements_that_fit(const TaskSize& task, std::size_t begin, std::size_t bytes) {
  const std::size_t left = task.elements - begin;
  if (bytes_of(task, left) <= bytes) return left;
  const double per_byte = static_cast<double>(task.elements) / static_cast<double>(task.bytes);
  const auto fitting = static_cast<std::size_t>(static_cast<double>(bytes) * per_byte);
  return std::min(left, fitting / kPieceGrain * kPieceGrain);
}

}  // namespace

std::vector<std::vector<TaskRange>> state_pieces(std::span<const TaskSize> tasks,
                                                 std::size_t bytes) {
  std::vector<std::vector<TaskRange>> groups;
  std::size_t room = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskSize& task = tasks[i];
    for (std::size_t begin = 0; begin < task.elements;) {
      std::size_t count = elements_that_fit(task, begin, room);
      if (count == 0 || groups.empty()) {
        groups.emplace_back();
        room = bytes;
        count = std::max(elements_that_fit(task, begin, room),
                         std::min(kPieceGrain, task.elements - begin));
      }
      groups.back().push_back({i, begin, begin + count});
      begin += count;
      room -= std::min(room, bytes_of(task, count));
    }
  }
  return groups;
}

}  // namespace accrue::optim
