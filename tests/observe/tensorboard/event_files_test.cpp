#include "observe/tensorboard/event_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/atomic_file.h"

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::StartsWith;

class EventFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / ("event_files_" + std::string(info->name()));
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string name_at(double now) const { return new_event_file(folder_, now).filename(); }
  fs::path folder_;
};

TEST_F(EventFiles, AreNamedByTheTimeAndTheProcess) {
  EXPECT_THAT(name_at(1234567890.9), StartsWith("events.out.tfevents.1234567890."));
  EXPECT_THAT(name_at(1234567890.9), EndsWith("." + std::to_string(getpid())));
  EXPECT_THAT(name_at(5), StartsWith("events.out.tfevents.0000000005."));
}

/// Two attempts in the same second, and a clock that was set back.
TEST_F(EventFiles, ComeAfterThoseThatAreThere) {
  write_file_atomically(folder_ / "events.out.tfevents.2000000000.host.1", "");
  write_file_atomically(folder_ / "events.out.tfevents.nonsense", "");
  write_file_atomically(folder_ / "notes.9999999999", "");
  EXPECT_THAT(name_at(2000000000), StartsWith("events.out.tfevents.2000000001."));
  EXPECT_THAT(name_at(1000000000), StartsWith("events.out.tfevents.2000000001."));
  EXPECT_THAT(name_at(3000000000), StartsWith("events.out.tfevents.3000000000."));
}

TEST_F(EventFiles, AreRemovedAndNothingElse) {
  write_file_atomically(folder_ / "events.out.tfevents.2000000000.host.1", "");
  write_file_atomically(folder_ / "notes", "mine");
  remove_event_files(folder_);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  fs::remove(folder_ / "notes");
  remove_event_files(folder_);
  EXPECT_FALSE(fs::exists(folder_));
  remove_event_files(folder_);
}

}  // namespace
}  // namespace accrue::observe
