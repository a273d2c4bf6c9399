#include "train/limits/limit_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LimitFile : public ::testing::Test {
 protected:
  LimitFile() { fs::create_directories(folder_); }
  ~LimitFile() override { fs::remove_all(folder_); }

  fs::path write(const std::string& content) const {
    std::ofstream(file_, std::ios::binary) << content;
    return file_;
  }
  static LimitReading number_in(const fs::path& file) {
    return read_limit_file({.file = file.string(), .above = 1});
  }
  static bool is_there(const fs::path& file) {
    return *read_limit_file({.file = file.string()}).value == 1;
  }

  fs::path folder_ = fs::temp_directory_path() / ("limit-file-" + std::to_string(::getpid()));
  fs::path file_ = folder_ / "file";
};

TEST(NumberAtStart, IsWhatATextBeginsWith) {
  EXPECT_EQ(number_at_start("45000\n"), 45000);
  EXPECT_EQ(number_at_start("0.52 0.58 0.59 1/467 12345\n"), 0.52);
  EXPECT_EQ(number_at_start("  -3e2"), -300);
  EXPECT_EQ(number_at_start("81%"), 81);
}

TEST(NumberAtStart, IsNoneInOtherTexts) {
  for (const char* text : {"", " \n", "Discharging", "avg10=0.00", "12abc", "0x10", "nan", "inf",
                           "-inf 3", "1e999", "--3", "+7", "3.4.5"})
    EXPECT_FALSE(number_at_start(text)) << text;
  EXPECT_FALSE(number_at_start(std::string_view("5\0", 2)));
}

TEST_F(LimitFile, TellsANumber) {
  EXPECT_EQ(number_in(write("45000\n")).value, 45000);
  EXPECT_EQ(number_in("/proc/loadavg").trouble, "");
  EXPECT_GE(*number_in("/proc/uptime").value, 0);
}

TEST_F(LimitFile, TellsWhatIsWrong) {
  EXPECT_THAT(number_in(folder_ / "missing").trouble, HasSubstr("No such file"));
  for (const char* content : {"", "hot\n", "n/a"}) {
    const LimitReading reading = number_in(write(content));
    EXPECT_FALSE(reading.value) << content;
    EXPECT_EQ(reading.trouble, "it does not begin with a number");
  }
  EXPECT_EQ(number_in(folder_).trouble, "it is no regular file");
  EXPECT_EQ(number_in("/dev/zero").trouble, "it is no regular file");
}

TEST_F(LimitFile, ReadsTheBeginningOfAHugeOne) {
  fs::resize_file(write("12\n"), std::uintmax_t{1} << 40);
  EXPECT_EQ(number_in(file_).value, 12);
  write("");
  fs::resize_file(file_, std::uintmax_t{1} << 40);
  EXPECT_EQ(number_in(file_).trouble, "it does not begin with a number");
}

/// Opening it for reading would wait for a writer.
TEST_F(LimitFile, DoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(number_in(file_).trouble, "it is no regular file");
  EXPECT_TRUE(is_there(file_));
}

TEST_F(LimitFile, WithoutABoundTellsWhetherItIsThere) {
  EXPECT_FALSE(is_there(file_));
  EXPECT_TRUE(is_there(write("")));
  EXPECT_TRUE(is_there(folder_));
}

}  // namespace
}  // namespace accrue::train
