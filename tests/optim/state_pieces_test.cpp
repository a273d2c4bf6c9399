#include "optim/state_pieces.h"

#include <gtest/gtest.h>

namespace accrue::optim {
namespace {

using PieceGroups = std::vector<std::vector<TaskRange>>;

constexpr std::size_t kBytesOfAnElement = 16;

TaskSize task_of(std::size_t elements) { return {elements, elements * kBytesOfAnElement}; }

TEST(StatePieces, SmallTasksShareAGroup) {
  const std::vector<TaskSize> tasks(3, task_of(1000));
  EXPECT_EQ(state_pieces(tasks, 40'000),
            (PieceGroups{{{0, 0, 1000}, {1, 0, 1000}}, {{2, 0, 1000}}}));
}

TEST(StatePieces, ALargeTaskIsDividedAtTheGrainAndItsRestSharesAGroup) {
  const std::vector<TaskSize> tasks{task_of(3 * kPieceGrain + 7), task_of(1000)};
  EXPECT_EQ(state_pieces(tasks, 2 * kPieceGrain * kBytesOfAnElement),
            (PieceGroups{{{0, 0, 2 * kPieceGrain}},
                         {{0, 2 * kPieceGrain, 3 * kPieceGrain + 7}, {1, 0, 1000}}}));
}

TEST(StatePieces, AGroupHasAtLeastOneGrain) {
  const std::vector<TaskSize> tasks{task_of(2 * kPieceGrain + 5)};
  EXPECT_EQ(state_pieces(tasks, 1), (PieceGroups{{{0, 0, kPieceGrain}},
                                                 {{0, kPieceGrain, 2 * kPieceGrain}},
                                                 {{0, 2 * kPieceGrain, 2 * kPieceGrain + 5}}}));
}

TEST(StatePieces, WhatFitsIsOneGroupAndEmptyTasksAreInNone) {
  const std::vector<TaskSize> tasks{task_of(0), task_of(kPieceGrain + 1), task_of(0), task_of(3)};
  EXPECT_EQ(state_pieces(tasks, 3 * kPieceGrain * kBytesOfAnElement),
            (PieceGroups{{{1, 0, kPieceGrain + 1}, {3, 0, 3}}}));
  EXPECT_EQ(state_pieces({}, 1), PieceGroups{});
}

}  // namespace
}  // namespace accrue::optim
