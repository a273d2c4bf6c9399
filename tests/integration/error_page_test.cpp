#include "cli/help/error_page.h"

#include <gmock/gmock.h>

#include "cli/help/wrapped_text.h"

namespace accrue::cli {
namespace {

TEST(ErrorPage, HasALineForEachPart) {
  const Error error =
      usage_error("config key optim.lrr", "a known key", "an unknown one", "optim.lr");
  EXPECT_EQ(error_page(error, 80),
            "error: config key optim.lrr\n"
            "  expected  a known key\n"
            "  received  an unknown one\n"
            "  try       optim.lr\n");
}

TEST(ErrorPage, WrapsBelowTheFirstLineOfAPart) {
  const Error error = usage_error("x", "one two three four", "five", "");
  EXPECT_EQ(error_page(error, 22),
            "error: x\n"
            "  expected  one two\n"
            "            three four\n"
            "  received  five\n");
}

TEST(WrappedText, KeepsExamplesAndParagraphs) {
  EXPECT_EQ(wrapped("a b\nc\n\n  as it is\nd", 3, 0), "a b\nc\n\n  as it is\nd\n");
  EXPECT_EQ(wrapped("longer a", 4, 2), "  longer\n  a\n");
  EXPECT_EQ(wrapped("", 80), "");
}

}  // namespace
}  // namespace accrue::cli
