#include "core/json_extent.h"

#include <gtest/gtest.h>

#include <string>

namespace accrue {
namespace {

TEST(JsonExtent, CountsWhatLiesWithinAndBeside) {
  const auto expect = [](const std::string& text, std::size_t depth, std::size_t members) {
    const JsonExtent extent = extent_of_json(text);
    EXPECT_EQ(extent.depth, depth) << text;
    EXPECT_EQ(extent.members, members) << text;
  };
  expect("5", 0, 0);
  expect("{}", 1, 1);
  expect(R"({"a": [1, 2, 3], "b": {"c": [[]]}})", 4, 3);
  expect(R"(["[[[[", "\"[[,,,", "\\", {}])", 2, 4);
}

TEST(JsonExtent, OfATextThatIsNoneEnds) {
  EXPECT_EQ(extent_of_json("]]}}[").depth, 1U);
  EXPECT_EQ(extent_of_json("[\"\\").depth, 1U);
  EXPECT_EQ(extent_of_json(std::string(100'000, '[')).depth, 100'000U);
  EXPECT_EQ(extent_of_json("").depth, 0U);
}

}  // namespace
}  // namespace accrue
