#include "memory/disk_rates.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "accrue/core/error.h"

namespace accrue::memory {
namespace {

TEST(DiskRates, AreThoseOfAFileThatIsGoneAfterwards) {
  const std::filesystem::path folder = std::filesystem::current_path() / "disk_rates_test";
  std::filesystem::create_directory(folder);
  const DiskRates rates = measure_disk_rates(folder);
  EXPECT_GT(rates.read, 0);
  EXPECT_GT(rates.write, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_GT(measure_disk_rates(folder, 1).read, 0) << "one transfer, however little is asked for";
  std::filesystem::remove(folder);
  EXPECT_THROW(measure_disk_rates(folder), Error);
}

}  // namespace
}  // namespace accrue::memory
