#include "core/nearest.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("micro", "mciro"), 1u);
  EXPECT_EQ(edit_distance("lr", "lrr"), 1u);
}

TEST(Nearest, TakesTheFewestEdits) {
  EXPECT_EQ(nearest("cosin", {"linear", "cosine", "constant"}), "cosine");
  EXPECT_EQ(nearest("x", {"a", "b"}), "a");
}

}  // namespace
}  // namespace accrue
