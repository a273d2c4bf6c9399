#include "cli/help/error_page.h"

#include <gmock/gmock.h>

#include "cli/help/wrapped_text.h"

namespace accrue::cli {
namespace {

TEST(ErrorPage, HasALineForEachPart) {
  const Error error =
      usage_error("config key optim.lrr", "a known key", "an unknown one", "optim.lr");
  EXPECT_EQ(error_page(error, 80, false),
            "error: config key optim.lrr\n"
            "  expected  a known key\n"
            "  received  an unknown one\n"
            "  try       optim.lr\n");
}

TEST(ErrorPage, WrapsBelowTheFirstLineOfAPart) {
  const Error error = usage_error("x", "one two three four", "five", "");
  EXPECT_EQ(error_page(error, 22, false),
            "error: x\n"
            "  expected  one two\n"
            "            three four\n"
            "  received  five\n");
}

TEST(ErrorPage, IsColouredOnlyIfAsked) {
  const Error error = usage_error("x", "a", "b", "c");
  EXPECT_EQ(error_page(error, 80, false).find('\033'), std::string::npos);
  EXPECT_NE(error_page(error, 80, true).find("\033[1;31merror:\033[0m x\n"), std::string::npos);
}

TEST(WrappedText, KeepsExamplesAndParagraphs) {
  EXPECT_EQ(wrapped("a b\nc\n\n  as it is\nd", 3, 0), "a b\nc\n\n  as it is\nd\n");
  EXPECT_EQ(wrapped("longer a", 4, 2), "  longer\n  a\n");
  EXPECT_EQ(wrapped("", 80), "");
}

}  // namespace
}  // namespace accrue::cli
