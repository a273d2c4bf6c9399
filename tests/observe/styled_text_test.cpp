#include "observe/styled_text.h"

#include <gtest/gtest.h>

namespace accrue::observe {
namespace {

TEST(StyledText, CountsColumnsAndNotBytes) {
  StyledText text;
  text.add("loss ", Look::faint).add("▁█");
  EXPECT_EQ(text.columns(), 7);
  EXPECT_EQ(text.in_bytes(false), "loss ▁█");
  EXPECT_EQ(text.in_bytes(true), "\x1b[2mloss \x1b[0m▁█");
  text.pad_to(9);
  EXPECT_EQ(text.in_bytes(false), "loss ▁█  ");
  text.pad_to(3);
  EXPECT_EQ(text.columns(), 9);
}

TEST(StyledText, IsCutBetweenCharacters) {
  StyledText text;
  text.add("ab").add("▁▂▃", Look::good).add("cd", Look::danger);
  StyledText whole = text;
  whole.cut_to(7);
  EXPECT_EQ(whole.in_bytes(false), "ab▁▂▃cd");
  text.cut_to(4);
  EXPECT_EQ(text.columns(), 4);
  EXPECT_EQ(text.in_bytes(false), "ab▁▂");
  EXPECT_EQ(text.in_bytes(true), "ab\x1b[32m▁▂\x1b[0m") << "colours end with their text";
  text.cut_to(0);
  EXPECT_EQ(text.in_bytes(true), "");
}

}  // namespace
}  // namespace accrue::observe
