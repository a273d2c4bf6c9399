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

TEST(Nearest, WithinSoManyEditsOrNone) {
  EXPECT_EQ(nearest_within(1, "cosin", {"linear", "cosine"}), "cosine");
  EXPECT_EQ(nearest_within(0, "cosin", {"linear", "cosine"}), std::nullopt);
  EXPECT_EQ(nearest_within(9, "cosin", {}), std::nullopt);
}

TEST(Nearest, AMisspellingHasAnEditForEachFourLetters) {
  EXPECT_EQ(misspelt("ab", {"ac"}), "ac");
  EXPECT_EQ(misspelt("abcdefg", {"abcdexx"}), std::nullopt);
  EXPECT_EQ(misspelt("abcdefgh", {"abcdefxx"}), "abcdefxx");
  EXPECT_EQ(misspelt("a", {"b"}), std::nullopt);
}

}  // namespace
}  // namespace accrue
