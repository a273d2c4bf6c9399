#include "core/energy_meter.h"

#include <gtest/gtest.h>

#include <fstream>

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t usual_range = 262'143'328'850;

/// A folder as on Linux.
class EnergyMeterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("accrue_energy_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& zone, const std::string& file, const std::string& content) const {
    fs::create_directories(folder_ / zone);
    std::ofstream(folder_ / zone / file) << content << "\n";
  }
  void set(const std::string& zone, std::int64_t microjoules) const {
    write(zone, "energy_uj", std::to_string(microjoules));
  }
  void make(const std::string& zone, const std::string& name, std::int64_t microjoules,
            std::int64_t range = usual_range) const {
    write(zone, "name", name);
    write(zone, "max_energy_range_uj", std::to_string(range));
    set(zone, microjoules);
  }

  fs::path folder_;
};

TEST_F(EnergyMeterTest, AddsUpThePackagesAndNotWhatIsInThem) {
  make("intel-rapl:0", "package-0", 1'000'000);
  make("intel-rapl:1", "package-1", 5'000'000);
  make("intel-rapl:0:0", "core", 1'000'000);
  make("intel-rapl:2", "psys", 1'000'000);
  const EnergyMeter meter(folder_);
  for (const char* zone : {"intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0", "intel-rapl:2"})
    set(zone, 7'500'000);
  EXPECT_DOUBLE_EQ(*meter.joules(), 6.5 + 2.5);
}

TEST_F(EnergyMeterTest, BeginsAnew) {
  make("intel-rapl:0", "package-0", 1'000'000);
  EnergyMeter meter(folder_);
  set("intel-rapl:0", 3'000'000);
  meter.restart();
  EXPECT_EQ(meter.joules(), 0) << "a measured 0 is a value";
  set("intel-rapl:0", 3'250'000);
  EXPECT_EQ(meter.joules(), 0.25);
}

TEST_F(EnergyMeterTest, FollowsACounterThatGoesRound) {
  make("intel-rapl:0", "package-0", usual_range - 1'000'000);
  const EnergyMeter meter(folder_);
  set("intel-rapl:0", 500'000);
  EXPECT_DOUBLE_EQ(*meter.joules(), 1.5);
}

TEST_F(EnergyMeterTest, TellsNothingWhereTheCounterMayHaveGoneRoundTwice) {
  make("intel-rapl:0", "package-0", 0, /*range=*/1);
  EXPECT_FALSE(EnergyMeter(folder_).joules());
}

TEST_F(EnergyMeterTest, TellsNothingWhereThereIsNothingToRead) {
  EXPECT_FALSE(EnergyMeter(folder_).joules());
  EXPECT_FALSE(EnergyMeter(folder_ / "none").joules());
  make("intel-rapl:0", "package-0", 0);
  make("intel-rapl:1", "package-1", 0);
  fs::remove(folder_ / "intel-rapl:1" / "energy_uj");
  EXPECT_FALSE(EnergyMeter(folder_).joules()) << "one of two is not all";
  write("intel-rapl:1", "energy_uj", "none");
  EXPECT_FALSE(EnergyMeter(folder_).joules());
  set("intel-rapl:1", 3);
  EXPECT_TRUE(EnergyMeter(folder_).joules());
}

}  // namespace
}  // namespace accrue
