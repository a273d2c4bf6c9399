#include "train/watch/slow_disk.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>

namespace accrue::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Of a disk that reads 100 MiB/s and writes 50 MiB/s.
SlowDisk watched_disk() { return {"/mnt/disk", {.read = 100 * 0x1p20, .write = 50 * 0x1p20}}; }

/// What a disk moves in `seconds` at that rate, in MiB a second.
memory::Transfers at_rate(double mebi, double seconds) {
  return {.bytes = static_cast<std::int64_t>(mebi * 0x1p20 * seconds), .seconds = seconds};
}

TEST(SlowDisk, IsToldOnceWithBothRates) {
  SlowDisk disk = watched_disk();
  EXPECT_FALSE(disk.observe(at_rate(90, 4), at_rate(40, 4)));
  const std::optional<std::string> told = disk.observe(at_rate(30, 4), at_rate(40, 4));
  ASSERT_TRUE(told);
  EXPECT_THAT(*told, AllOf(HasSubstr("/mnt/disk read the state at 30.0 MiB/s"),
                           HasSubstr("less than half of the 100 MiB/s that were measured"),
                           Not(HasSubstr("wrote"))));
  EXPECT_FALSE(disk.observe(at_rate(1, 4), at_rate(1, 4))) << "once in a run";
}

TEST(SlowDisk, IsOneThatWritesSlowly) {
  SlowDisk disk = watched_disk();
  const std::optional<std::string> told = disk.observe(at_rate(100, 4), at_rate(20, 4));
  ASSERT_TRUE(told);
  EXPECT_THAT(*told, AllOf(HasSubstr("wrote the state at 20.0 MiB/s"),
                           HasSubstr("half of the 50.0 MiB/s"), Not(HasSubstr(" read "))));
  SlowDisk both = watched_disk();
  EXPECT_THAT(both.observe(at_rate(1, 2), at_rate(1, 2)).value_or(""),
              AllOf(HasSubstr(" read "), HasSubstr(", and wrote ")));
}

TEST(SlowDisk, IsNoneAtHalfTheRateOrMore) {
  SlowDisk disk = watched_disk();
  EXPECT_FALSE(disk.observe(at_rate(50, 4), at_rate(25, 4)));
  EXPECT_TRUE(disk.observe(at_rate(49, 4), at_rate(25, 4))) << "the control";
}

TEST(SlowDisk, IsNoneWhereTooLittleIsKnown) {
  SlowDisk disk = watched_disk();
  EXPECT_FALSE(disk.observe(at_rate(1, 0.9), at_rate(1, 0.9))) << "less than a second";
  EXPECT_FALSE(disk.observe({.bytes = 0, .seconds = 9}, {})) << "not counted";
  SlowDisk unknown("/mnt/disk", {});
  EXPECT_FALSE(unknown.observe(at_rate(1, 9), at_rate(1, 9)));
}

}  // namespace
}  // namespace accrue::train
