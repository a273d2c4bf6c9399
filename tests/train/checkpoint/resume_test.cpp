#include "train/checkpoint/resume.h"

#include <gtest/gtest.h>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

TEST(CheckRoom, RefusesADiskThatCannotHoldTheCheckpoints) {
  EXPECT_EQ(checkpoint_room({.keep = 2, .keep_best = true}, 50, 100, 200), 4 * 300);
  EXPECT_EQ(checkpoint_room({.keep = 1000, .keep_best = false}, 2, 100, 200), 3 * 300);
  EXPECT_NO_THROW(check_room(1200, 1200, "here"));
  try {
    check_room(1200, 1199, "here");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_EQ(error.operation(), "run directory here");
  }
  EXPECT_GT(free_bytes_at("/"), 0);
}

}  // namespace
}  // namespace accrue::train
