#include "observe/compare/allowance.h"

#include <gmock/gmock.h>

#include "support/errors.h"

namespace accrue::observe {
namespace {

using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(Allowance, IsAPercentageOrAShare) {
  EXPECT_THAT(parse_allowance("0.5%", "--loss"), Optional(DoubleEq(0.005)));
  EXPECT_THAT(parse_allowance("0.005", "--loss"), Optional(DoubleEq(0.005)));
  EXPECT_THAT(parse_allowance(" 2 % ", "--loss"), Optional(DoubleEq(0.02)));
  EXPECT_THAT(parse_allowance("1e-3", "--loss"), Optional(DoubleEq(0.001)));
  EXPECT_THAT(parse_allowance("0", "--loss"), Optional(DoubleEq(0)));
  EXPECT_THAT(parse_allowance("150%", "--loss"), Optional(DoubleEq(1.5)));
}

TEST(Allowance, MayBeOff) { EXPECT_FALSE(parse_allowance("off", "--loss")); }

TEST(Allowance, RefusesWhatItCannotTell) {
  for (const char* text :
       {"", "%", "-1%", "nan", "inf%", "5%%", "five", "0.5 per cent", "0x1", "1e999%"})
    EXPECT_THAT(usage_message([&] { parse_allowance(text, "--speed"); }),
                AllOf(HasSubstr("compare --speed"), HasSubstr("0.5%")))
        << text;
  EXPECT_THAT(usage_message([&] { parse_allowance("5", "--speed"); }), HasSubstr("try --speed=5%"));
}

}  // namespace
}  // namespace accrue::observe
