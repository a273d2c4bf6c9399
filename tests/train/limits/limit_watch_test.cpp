#include "train/limits/limit_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/errors.h"
#include "support/run_program.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using accrue::testing::wait_until;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Limits whose files and clock the test controls.
class LimitWatching : public ::testing::Test {
 protected:
  LimitWatching() { fs::create_directories(folder_); }
  ~LimitWatching() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, double number) const {
    std::ofstream(folder_ / name) << number << "\n";
  }
  LimitWatch watch(const std::vector<Limit>& limits) {
    return LimitWatch(limits, [this] { return now_; });
  }
  /// The reports `seconds` later.
  std::vector<std::string> later(LimitWatch& watch, double seconds) {
    now_ += seconds;
    return watch.follow();
  }

  fs::path folder_ = fs::temp_directory_path() / ("limit-watch-" + std::to_string(::getpid()));
  double now_ = 0;
};

TEST_F(LimitWatching, SlowsARunDownAndLetsItGo) {
  write("temp", 40);
  LimitWatch watch = this->watch({{.file = path("temp"), .above = 85}});
  EXPECT_EQ(watch.allowed_speed(), 1);
  EXPECT_THAT(watch.follow(), IsEmpty());
  write("temp", 90);
  EXPECT_THAT(later(watch, 1),
              ElementsAre(path("temp") +
                          " is 90, above 85: works 50% of the time until it is 80.75 or less"));
  EXPECT_EQ(watch.allowed_speed(), 0.5);
  EXPECT_THAT(later(watch, 1), IsEmpty()) << "it is told once";
  write("temp", 80);
  EXPECT_THAT(later(watch, 3), IsEmpty()) << "it is not over so soon";
  EXPECT_THAT(later(watch, 1), ElementsAre(path("temp") + " is 80: this limit is over after 5 s"));
  EXPECT_EQ(watch.allowed_speed(), 1);
}

TEST_F(LimitWatching, ReadsAFileOnceASecond) {
  write("temp", 40);
  LimitWatch watch = this->watch({{.file = path("temp"), .above = 85}});
  write("temp", 90);
  EXPECT_THAT(later(watch, 0.9), IsEmpty());
  EXPECT_THAT(later(watch, 0.1), ::testing::SizeIs(1));
}

TEST_F(LimitWatching, TakesTheLeastOfWhatLimitsAllow) {
  write("temp", 90);
  write("power", 300);
  write("charge", 50);
  LimitWatch watch =
      this->watch({{.file = path("temp"), .above = 85, .speed = 0.75},
                   {.file = path("power"), .above = 250, .speed = 0.25},
                   {.file = path("charge"), .below = 20, .action = LimitAction::pause}});
  EXPECT_EQ(watch.allowed_speed(), 0.25);
  write("charge", 19);
  later(watch, 1);
  EXPECT_EQ(watch.allowed_speed(), 0);
}

TEST_F(LimitWatching, AsksForACheckpointEachTimeThatItIsMet) {
  LimitWatch watch = this->watch({{.file = path("notice"), .action = LimitAction::checkpoint}});
  EXPECT_FALSE(watch.take_notice());
  for (int i = 0; i < 2; ++i) {
    write("notice", 0);
    EXPECT_THAT(later(watch, 10),
                ElementsAre(path("notice") + " is there: a checkpoint is asked for"));
    EXPECT_TRUE(watch.take_notice());
    EXPECT_FALSE(watch.take_notice());
    later(watch, 10);
    EXPECT_FALSE(watch.take_notice()) << "the file is still the same notice";
    fs::remove(path("notice"));
    later(watch, 10);
  }
  EXPECT_EQ(watch.allowed_speed(), 1);
}

TEST_F(LimitWatching, AsksToStopForGood) {
  LimitWatch watch = this->watch({{.file = path("end"), .action = LimitAction::stop}});
  EXPECT_FALSE(watch.asks_to_stop());
  write("end", 0);
  EXPECT_THAT(later(watch, 1), ElementsAre(path("end") + " is there: asked to stop"));
  fs::remove(path("end"));
  later(watch, 100);
  EXPECT_TRUE(watch.asks_to_stop());
}

TEST_F(LimitWatching, TellsOnceThatAFileCannotBeReadAnyMore) {
  write("temp", 90);
  LimitWatch watch =
      this->watch({{.file = path("temp"), .above = 85, .action = LimitAction::pause}});
  EXPECT_THAT(watch.follow(), ElementsAre(HasSubstr("paused until it is 80.75 or less")));
  fs::remove(path("temp"));
  ASSERT_EQ(::mkfifo(path("temp").c_str(), 0600), 0);
  for (int second = 0; second < 10; ++second) {
    EXPECT_THAT(later(watch, 1), IsEmpty());
    EXPECT_EQ(watch.allowed_speed(), 0);
  }
  EXPECT_THAT(later(watch, 1),
              ElementsAre(path("temp") + " cannot be read (it is no regular file): this limit "
                                         "counts as over until it can"));
  EXPECT_EQ(watch.allowed_speed(), 1);
  EXPECT_THAT(later(watch, 100), IsEmpty());
  fs::remove(path("temp"));
  write("temp", 60);
  EXPECT_THAT(later(watch, 1), ElementsAre(path("temp") + " is 60 again"));
}

TEST_F(LimitWatching, RefusesWhatCannotBeReadAtTheStart) {
  EXPECT_THAT(usage_message([&] { watch({{.file = path("temp"), .above = 85}}); }),
              AllOf(HasSubstr("run.limits"), HasSubstr(path("temp") + " above 85: slow"),
                    HasSubstr("No such file")));
  EXPECT_THAT(usage_message([&] { watch({{.command = "exit 4", .above = 85}}); }),
              AllOf(HasSubstr("the command \"exit 4\""), HasSubstr("it ends with status 4")));
  EXPECT_NO_THROW(watch({{.file = path("temp")}})) << "it need not be there";
}

/// The clock is the test's, but the process is real: the test waits for it without the clock.
TEST_F(LimitWatching, FollowsACommandWithoutWaitingForIt) {
  write("temp", 40);
  LimitWatch watch = this->watch({{.command = "cat " + path("temp"), .above = 85}});
  write("temp", 90);
  EXPECT_THAT(later(watch, 9.9), IsEmpty());
  EXPECT_THAT(later(watch, 0.1), IsEmpty()) << "it has only begun";
  std::vector<std::string> told;
  wait_until([&] {
    told = later(watch, 0);
    return !told.empty();
  });
  EXPECT_THAT(told, ElementsAre(HasSubstr("is 90, above 85: works 50% of the time")));
  EXPECT_EQ(watch.allowed_speed(), 0.5);
}

TEST(LimitWatch, WithoutLimitsAllowsAll) {
  LimitWatch watch;
  EXPECT_TRUE(watch.is_empty());
  EXPECT_THAT(watch.follow(), IsEmpty());
  EXPECT_EQ(watch.allowed_speed(), 1);
  EXPECT_FALSE(watch.asks_to_stop());
}

}  // namespace
}  // namespace accrue::train
