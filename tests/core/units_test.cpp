#include "accrue/core/units.h"

#include <gtest/gtest.h>

#include "accrue/core/error.h"

namespace accrue {
namespace {

TEST(ParseBytes, ReadsBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("4096 B", "x").count, 4096);
  EXPECT_EQ(parse_bytes("6GiB", "x").count, std::int64_t{6} << 30);
  EXPECT_EQ(parse_bytes(" 1.5 GB ", "x").count, 1'500'000'000);
}

TEST(ParseBytes, RefusesWhatIsNotASizeAndNamesTheKey) {
  for (const char* text : {"", "GiB", "-1", "6 gigs", "nan", "1e300GiB"}) {
    try {
      parse_bytes(text, "memory.budget");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_EQ(error.operation(), "memory.budget");
    }
  }
}

TEST(ParseBytes, RefusesANumberWithoutAUnitAndNamesOne) {
  for (const auto& [text, suggestion] :
       {std::pair{"6", "\"6GiB\""}, std::pair{"0", "\"6GiB\""}, std::pair{"1.5", "\"1.5GiB\""},
        std::pair{"400", "\"400MiB\""}, std::pair{"4096", "\"4096MiB\""},
        std::pair{"6442450944", "\"6442450944 B\""}}) {
    try {
      parse_bytes(text, "memory.budget");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.suggestion(), suggestion);
      EXPECT_NE(error.received().find("which has none"), std::string::npos) << error.what();
    }
  }
}

TEST(ParseBytes, NamesTheSizeThatAMisspeltUnitWasMeantToBe) {
  for (const auto& [text, suggestion] :
       {std::pair{"6G", "\"6GiB\""}, std::pair{"6g", "\"6GiB\""}, std::pair{"512mb", "\"512MiB\""},
        std::pair{"1.5 gib", "\"1.5GiB\""}, std::pair{"64K", "\"64KiB\""},
        std::pair{"6 gigs", "a number followed by KiB, MiB, GiB, kB, MB or GB"}}) {
    try {
      parse_bytes(text, "memory.budget");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.suggestion(), suggestion);
    }
  }
}

TEST(ParseDuration, NamesTheUnitsOfTheClockToo) {
  EXPECT_EQ(try_parse_duration("10 fortnights"), std::nullopt);
  EXPECT_EQ(try_parse_duration("2 h"), (Duration{7200, Duration::Unit::seconds}));
  try {
    parse_duration("10 fortnights", "run.checkpoint_every");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.expected().find("\"10 min\""), std::string::npos) << error.what();
  }
}

TEST(ParseDuration, ReadsEveryUnit) {
  using Unit = Duration::Unit;
  EXPECT_EQ(parse_duration("200", "x"), (Duration{200, Unit::steps}));
  EXPECT_EQ(parse_duration("200 steps", "x"), (Duration{200, Unit::steps}));
  EXPECT_EQ(parse_duration("10 M tokens", "x"), (Duration{1e7, Unit::tokens}));
  EXPECT_EQ(parse_duration("1%", "x"), (Duration{1, Unit::percent}));
  EXPECT_EQ(parse_duration("3 epochs", "x"), (Duration{3, Unit::epochs}));
  EXPECT_EQ(parse_duration("10 min", "x"), (Duration{600, Unit::seconds}));
  EXPECT_THROW(parse_duration("10 fortnights", "x"), Error);
}

TEST(ToSteps, ConvertsWhatCountsAndRefusesTime) {
  const Horizon horizon{.total_steps = 1000, .tokens_per_step = 500, .steps_per_epoch = 40};
  EXPECT_EQ(to_steps({1, Duration::Unit::percent}, horizon, "x"), 10);
  EXPECT_EQ(to_steps({10'000, Duration::Unit::tokens}, horizon, "x"), 20);
  EXPECT_EQ(to_steps({2.5, Duration::Unit::epochs}, horizon, "x"), 100);
  EXPECT_THROW(to_steps({60, Duration::Unit::seconds}, horizon, "x"), Error);
}

TEST(Format, IsForPeople) {
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_count(12'345'678), "12.3 M");
  EXPECT_EQ(format_duration(4.25), "4.2s");
  EXPECT_EQ(format_duration(65), "1m05s");
  EXPECT_EQ(format_duration(3725), "1h02m");
  EXPECT_EQ(format_seconds(300), "5 min");
  EXPECT_EQ(format_seconds(1.5), "1.5 s");
  EXPECT_EQ(format_seconds(1.2345), "1.23 s");
  EXPECT_EQ(format_seconds(0.004), "0 s");
  EXPECT_EQ(format_seconds(5400), "1.5 h");
}

TEST(FormatBytesRoundedUp, IsNeverLessWhenReadAgainAndAtMostOnePercentMore) {
  for (std::int64_t bytes = 0; bytes < (std::int64_t{1} << 44); bytes += bytes / 37 + 1) {
    const std::int64_t read = parse_bytes(format_bytes_rounded_up(bytes), "it").count;
    ASSERT_GE(read, bytes);
    ASSERT_LE(static_cast<double>(read), 1.01 * static_cast<double>(bytes));
  }
  EXPECT_EQ(format_bytes_rounded_up((194 << 20) + 1), "195 MiB");
  EXPECT_EQ(format_bytes((194 << 20) + 1), "194 MiB") << "rounded to the nearest it would be less";
}

}  // namespace
}  // namespace accrue
