#include "train/watch/machine_ceiling.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "core/atomic_file.h"
#include "support/environment.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::EnvironmentVariable;

class CeilingCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("accrue_ceiling_") + test->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "accrue" / "ceilings.json"; }
  void write(const std::string& content) const {
    fs::create_directories(file().parent_path());
    std::ofstream(file()) << content;
  }

  fs::path folder_;
  CeilingKey key_ = ceiling_key(models::Compute::fp32);
};

TEST_F(CeilingCacheTest, FindsWhatWasKept) {
  const CeilingCache cache(file());
  EXPECT_FALSE(cache.find(key_));
  EXPECT_TRUE(cache.keep(key_, 1e11)) << "the folder is made";
  EXPECT_EQ(CeilingCache(file()).find(key_), 1e11);
  EXPECT_TRUE(cache.keep(key_, 2e11));
  EXPECT_EQ(cache.find(key_), 2e11) << "the later one replaces it";
}

TEST_F(CeilingCacheTest, TellsMachinesThreadsPrecisionsAndKernelsApart) {
  const CeilingCache cache(file());
  std::vector<CeilingKey> keys(6, key_);
  keys[1].processor = "another";
  keys[2].isa = "another";
  keys[3].precision = "bf16";
  keys[4].kernels = "another";
  keys[5].threads += 1;
  for (std::size_t i = 0; i < keys.size(); ++i)
    EXPECT_TRUE(cache.keep(keys[i], 1e9 * static_cast<double>(i + 1)));
  for (std::size_t i = 0; i < keys.size(); ++i)
    EXPECT_EQ(cache.find(keys[i]), 1e9 * static_cast<double>(i + 1)) << i;
}

TEST_F(CeilingCacheTest, ABrokenFileIsAsGoodAsNone) {
  const CeilingCache cache(file());
  cache.keep(key_, 1e11);
  const std::string whole = read_file(file());
  for (const std::string& content :
       {std::string(), whole.substr(0, whole.size() / 2), std::string("[1]"),
        std::string("{\"ceilings\": 3}"), std::string("{\"ceilings\": [1, null, {}]}"),
        std::string("\xff\xfe")}) {
    write(content);
    EXPECT_FALSE(cache.find(key_)) << content;
    EXPECT_TRUE(cache.keep(key_, 3e11));
    EXPECT_EQ(cache.find(key_), 3e11) << content;
  }
}

TEST_F(CeilingCacheTest, ARateThatIsNoneIsNotFound) {
  const CeilingCache cache(file());
  for (const char* rate : {"-1", "0", "\"fast\"", "null"}) {
    cache.keep(key_, 12345);
    std::string content = read_file(file());
    const std::size_t at = content.find("12345.0");
    ASSERT_NE(at, std::string::npos) << content;
    write(content.replace(at, 7, rate));
    EXPECT_FALSE(cache.find(key_)) << rate;
  }
}

TEST_F(CeilingCacheTest, SaysWhereItCannotKeep) {
  EXPECT_FALSE(CeilingCache("").keep(key_, 1));
  EXPECT_FALSE(CeilingCache("").find(key_));
  write("a file");
  EXPECT_FALSE(CeilingCache(file() / "ceilings.json").keep(key_, 1)) << "its folder is a file";
}

TEST(CeilingCacheFile, IsInTheUsersCaches) {
  {
    const EnvironmentVariable caches("XDG_CACHE_HOME", "/caches");
    EXPECT_EQ(ceiling_cache_file(), "/caches/accrue/ceilings.json");
  }
  const EnvironmentVariable relative("XDG_CACHE_HOME", "caches"), home("HOME", "/home/me");
  EXPECT_EQ(ceiling_cache_file(), "/home/me/.cache/accrue/ceilings.json")
      << "the standard says to ignore what is not absolute";
  const EnvironmentVariable none("HOME", nullptr);
  EXPECT_EQ(ceiling_cache_file(), "");
}

TEST(MachineCeiling, IsMeasuredWithinItsRoom) {
  constexpr std::int64_t room_for_512 = std::int64_t{8} << 20;
  EXPECT_FALSE(measure_ceiling(models::Compute::fp32, 10, room_for_512 / 4));
  EXPECT_TRUE(measure_ceiling(models::Compute::fp32, 0, room_for_512)) << "however busy it is";
  const auto rate = measure_ceiling(models::Compute::fp32, 10, room_for_512);
  ASSERT_TRUE(rate);
  EXPECT_GT(*rate, 1e6);
}

}  // namespace
}  // namespace accrue::train
