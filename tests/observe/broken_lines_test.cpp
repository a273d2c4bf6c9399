#include "observe/broken_lines.h"

#include <gtest/gtest.h>

namespace accrue::observe {
namespace {

TEST(BrokenLines, AreBrokenAtSpacesAndIndented) {
  EXPECT_EQ(broken_at_words("plan: micro-batches of 8 samples, the whole batch at once", 24),
            "plan: micro-batches of 8\n  samples, the whole\n  batch at once");
  EXPECT_EQ(broken_at_words("step  1/12  eval loss 4.8792", 12),
            "step  1/12\n  eval loss\n  4.8792")
      << "with the spaces within a line";
}

TEST(BrokenLines, AreNotIfTheLineFits) {
  for (const char* line : {"", "12345678", "1234 678", "12345  8"})
    EXPECT_EQ(broken_at_words(line, 8), line);
  EXPECT_EQ(broken_at_words("caf\u00e9 caf\u00e9", 9), "caf\u00e9 caf\u00e9")
      << "in columns, not bytes";
}

TEST(BrokenLines, KeepALongWordWhole) {
  EXPECT_EQ(broken_at_words("a /a/long/path b", 6), "a\n  /a/long/path\n  b");
  EXPECT_EQ(broken_at_words("/a/long/path", 6), "/a/long/path");
  EXPECT_EQ(broken_at_words("a b c", 1), "a\n  b\n  c");
  EXPECT_EQ(broken_at_words("abcdefg    ", 6), "abcdefg    ") << "nothing follows";
}

}  // namespace
}  // namespace accrue::observe
