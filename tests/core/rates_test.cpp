#include "core/rates.h"

#include <gmock/gmock.h>

#include <string>

#include "accrue/core/error.h"

namespace accrue {
namespace {

using ::testing::HasSubstr;

TEST(ByteRate, CountsBitsAndBytes) {
  EXPECT_DOUBLE_EQ(parse_byte_rate("25Gbit/s", "--link"), 3.125e9);
  EXPECT_DOUBLE_EQ(parse_byte_rate("100 Mbit/s", "--link"), 12.5e6);
  EXPECT_DOUBLE_EQ(parse_byte_rate(" 3GB/s ", "--link"), 3e9);
  EXPECT_DOUBLE_EQ(parse_byte_rate("1.5 GiB/s", "--link"), 1.5 * 0x1p30);
  EXPECT_DOUBLE_EQ(parse_byte_rate("1.2Tbit/s", "--link"), 150e9);
}

TEST(OperationRate, MayLeaveItsUnitOut) {
  EXPECT_DOUBLE_EQ(parse_operation_rate("400T", "--flops"), 4e14);
  EXPECT_DOUBLE_EQ(parse_operation_rate("1.5 PFLOP/s", "--flops"), 1.5e15);
  EXPECT_DOUBLE_EQ(parse_operation_rate("500GFLOP/s", "--flops"), 5e11);
}

/// The text of the refusal, which is a usage Error; "accepted" if there is none.
template <class Parse>
std::string rate_refusal(Parse parse, const char* text) {
  try {
    parse(text, "--rate");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2) << text;
    return error.what();
  }
  return "accepted";
}

TEST(Rates, RefuseWhatIsNone) {
  for (const char* text : {"", "fast", "25", "25G", "25Gbit", "25Gb/s", "0Gbit/s", "-1GB/s",
                           "nan GB/s", "inf GB/s", "1e308GB/s", "Gbit/s", "25Gbit/s more"}) {
    const std::string refusal = rate_refusal(parse_byte_rate, text);
    EXPECT_THAT(refusal, HasSubstr("--rate")) << text;
    EXPECT_THAT(refusal, HasSubstr("Gbit/s (bits)")) << text;
  }
  for (const char* text : {"", "400", "400FLOP/s", "400T/s", "0T", "-1T", "nanT", "T", "400 T T"})
    EXPECT_THAT(rate_refusal(parse_operation_rate, text), HasSubstr("such as 400T")) << text;
  EXPECT_EQ(rate_refusal(parse_byte_rate, "1bit/s"), "accepted") << "the control";
}

TEST(Rates, AreShownInThreeDigits) {
  EXPECT_EQ(format_byte_rate(3.125e9), "3.12 GB/s");
  EXPECT_EQ(format_byte_rate(900), "900 B/s");
  EXPECT_EQ(format_operation_rate(4e14), "400 TFLOP/s");
  EXPECT_EQ(format_operation_rate(2.5e18), "2.5 EFLOP/s");
}

}  // namespace
}  // namespace accrue
