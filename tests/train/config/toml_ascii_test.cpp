#include "toml_ascii.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/core/error.h"
#include "accrue/train/config.h"

namespace accrue::train {
namespace {

TEST(StrayCharacter, MayStandInStringsAndComments) {
  for (const char* text :
       {"a = 1 # caf\u00e9", "a = \"caf\u00e9\"", "a = 'caf\u00e9 \\'", "a = \"\\\" \u00e9\"",
        "a = \"\"\"one\ntwo \"\" \u00e9\"\"\"", "a = '''\u00e9\n\u00e9'''", "# \u00e9\na = 1",
        "\ufeffa = 1", "", "a = \"\"\"\\\n  x\u00e9\"\"\""})
    EXPECT_EQ(stray_character(text), std::nullopt) << text;
}

TEST(StrayCharacter, IsFoundElsewhere) {
  const std::pair<const char*, std::size_t> cases[] = {{"\u00e9 = 1", 0},
                                                       {"a = \u00e9", 4},
                                                       {"a = 1\u00a0", 5},
                                                       {"a = \"x\"\u00e9", 7},
                                                       {"a = \"\"\u00e9", 6},
                                                       {"a = 'x\\'\u00e9", 8},
                                                       {"a = \"open\n\u00e9", 10},
                                                       {"a = \"\"\"x\"\"\"\u00e9", 11},
                                                       {"a = \"\"\"x\\\n \u00e9\"\"\"", 11},
                                                       {"a = \"\"\"\\\n\"\"\"\u00e9", 12},
                                                       {"a = \"\"\"x\"\"\"\"\u00e9", 12},
                                                       {"# c\n\ufeff", 4}};
  for (const auto& [text, place] : cases) EXPECT_EQ(stray_character(text), place) << text;
}

TEST(StrayCharacter, IsAnErrorWithItsLine) {
  try {
    parse_config("[run]\nsteps = 1\n\u00fcber = 2\n", "run.toml");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("run.toml:3"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("outside ASCII"));
  }
}

}  // namespace
}  // namespace accrue::train
