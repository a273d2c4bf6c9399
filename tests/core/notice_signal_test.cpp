#include "core/notice_signal.h"

#include <gtest/gtest.h>

#include <csignal>

namespace accrue {
namespace {

TEST(NoticeWatch, NotesTheSignalUntilItIsTaken) {
  const NoticeWatch watch;
  EXPECT_FALSE(watch.take());
  std::raise(kNoticeSignal);
  std::raise(kNoticeSignal);
  EXPECT_TRUE(watch.is_given());
  EXPECT_TRUE(watch.is_given());
  EXPECT_TRUE(watch.take());
  EXPECT_FALSE(watch.is_given());
}

TEST(NoticeWatch, IsGivenWithoutASignalToo) {
  const NoticeWatch watch;
  watch.give();
  EXPECT_TRUE(watch.is_given());
  EXPECT_TRUE(watch.take());
  EXPECT_FALSE(watch.is_given());
}

TEST(NoticeWatch, KeepsWhatCameBeforeIt) {
  const NoticeWatch from_the_start;
  std::raise(kNoticeSignal);
  {
    const NoticeWatch of_a_run;
    EXPECT_TRUE(of_a_run.take());
  }
  std::raise(kNoticeSignal);
  EXPECT_TRUE(from_the_start.take()) << "the outer one has the signal again";
}

TEST(NoticeWatch, BeginsWithoutANotice) {
  {
    const NoticeWatch earlier;
    std::raise(kNoticeSignal);
  }
  EXPECT_FALSE(NoticeWatch().is_given());
}

}  // namespace
}  // namespace accrue
