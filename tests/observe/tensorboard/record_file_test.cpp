#include "observe/tensorboard/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "core/atomic_file.h"
#include "observe/tensorboard/crc32c.h"
#include "observe/tensorboard/hexadecimal.h"

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::hexadecimal;

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t turned = masked - 0xa282ead8;
  return (turned >> 17) | (turned << 15);
}

/// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(MaskedCrc32c, IsThatOfThePublishedVectors) {
  EXPECT_EQ(unmasked(masked_crc32c("123456789")), 0xe3069283);
  EXPECT_EQ(unmasked(masked_crc32c(std::string(32, '\0'))), 0x8a9136aa);
  EXPECT_EQ(unmasked(masked_crc32c(std::string(32, '\xff'))), 0x62a8ab43);
  EXPECT_EQ(unmasked(masked_crc32c("")), 0u);
  EXPECT_NE(masked_crc32c("123456788"), masked_crc32c("123456789"));
}

/// The expected values are TensorBoard's own (tests/observe/tensorboard/expected.py).
TEST(Framed, IsALengthAndTheDataEachWithItsChecksum) {
  EXPECT_EQ(hexadecimal(framed("123456789")), "090000000000000037f97139313233343536373839e5b08ac7");
}

class RecordFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    file_ = fs::path(::testing::TempDir()) / ("records_" + std::string(info->name()));
    fs::remove_all(file_);
  }
  void TearDown() override { fs::remove_all(file_); }
  fs::path file_;
};

TEST_F(RecordFileTest, GrowsByRecords) {
  RecordFile records;
  ASSERT_EQ(records.create(file_), "");
  EXPECT_EQ(records.append("a"), "");
  EXPECT_EQ(records.append(std::string(1, '\0')), "");
  EXPECT_EQ(read_file(file_), framed("a") + framed(std::string(1, '\0')));
}

TEST_F(RecordFileTest, ReplacesNothing) {
  write_file_atomically(file_, "mine");
  RecordFile records;
  EXPECT_THAT(records.create(file_), HasSubstr("exists"));
  EXPECT_THAT(records.append("a"), HasSubstr("not open"));
  EXPECT_EQ(read_file(file_), "mine");
}

TEST_F(RecordFileTest, LeavesNoHalfRecordWhereItFindsNoRoom) {
  RecordFile records;
  ASSERT_EQ(records.create(file_), "");
  ASSERT_EQ(records.append("whole"), "");
  const std::string before = read_file(file_);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = usual;
  small.rlim_cur = before.size() + 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string reason = records.append("does not fit");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(reason, "");
  EXPECT_EQ(read_file(file_), before);
  EXPECT_EQ(records.append("fits"), "");
  EXPECT_EQ(read_file(file_), before + framed("fits"));
}

TEST_F(RecordFileTest, SaysThatItsFileIsGone) {
  RecordFile records;
  ASSERT_EQ(records.create(file_), "");
  fs::remove(file_);
  EXPECT_THAT(records.append("a"), HasSubstr("removed"));
}

}  // namespace
}  // namespace accrue::observe
