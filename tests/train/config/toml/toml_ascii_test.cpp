#include "train/config/toml/toml_ascii.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "accrue/train/config.h"

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ToAscii, GoesThereAndBack) {
  for (const char* text : {"", "a = 1", "caf\u00e9", "~", "~C3;", "~~", "\u00e9~\u00e9", "a~",
                           "\U0001f600", "~C3;A9~", "\ufeff inside \ufeff"}) {
    const std::optional<std::string> ascii = to_ascii(std::string("x") + text);
    ASSERT_TRUE(ascii.has_value()) << text;
    EXPECT_TRUE(std::ranges::all_of(*ascii, [](char c) { return c > 0; }));
    EXPECT_EQ(from_ascii(*ascii), std::string("x") + text);
  }
  EXPECT_EQ(to_ascii("\ufeffa = 1"), "a = 1") << "a byte order mark";
}

TEST(ToAscii, TakesUtf8Alone) {
  for (const char* bad :
       {"\xff", "\x80", "a\xc3", "\xc3(", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
        "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82"})
    EXPECT_EQ(to_ascii(bad), std::nullopt) << bad;
  for (const char* good : {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_NE(to_ascii(good), std::nullopt) << good;
}

std::string refused(const std::string& line) {
  try {
    parse_config("[run]\nsteps = 1\n" + line + "\n", "run.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    return error.what();
  }
  return "no error";
}

TEST(ToAscii, ConfigsMaySayAnythingInStrings) {
  const Config config = parse_config(
      "# caf\u00e9\n[run]\nsteps = 1\nout = \"caf\u00e9 ~ \u2028\"\n"
      "[data]\ntrain = ['\u00e9', \"\"\"\\\n  \u00fc~C3;\"\"\"]\n[batch]\nsamples = 1\n",
      "run.toml", {"data.val=[\"\u00e9~\"]"});
  EXPECT_EQ(config.run.out, "caf\u00e9 ~ \u2028");
  EXPECT_THAT(config.data.train, ::testing::ElementsAre("\u00e9", "\u00fc~C3;"));
  EXPECT_THAT(config.data.val, ::testing::ElementsAre("\u00e9~"));
}

TEST(ToAscii, ElsewhereItIsAnErrorWithItsLine) {
  EXPECT_THAT(refused("\u00fcber = 2"), AllOf(HasSubstr("run.toml:3"), HasSubstr("outside ASCII")));
  EXPECT_THAT(refused("out = caf\u00e9"), HasSubstr("run.toml:3"));
  EXPECT_THAT(refused("out = \"\xff\""), HasSubstr("UTF-8"));
  EXPECT_THAT(refused("\"\u00fcber\" = 2"), HasSubstr("run.\u00fcber"));
}

}  // namespace
}  // namespace accrue::train
