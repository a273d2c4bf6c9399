#include "core/signal_handling.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "core/notice_signal.h"
#include "core/stop_signals.h"

namespace accrue {
namespace {

std::atomic<std::uintptr_t> handled_at{0};

void note_where(int) {
  const char here = 0;
  handled_at = reinterpret_cast<std::uintptr_t>(&here);
}

/// How far from the thread's own stack a signal to it is handled.
std::uintptr_t distance() {
  const char here = 0;
  handled_at = 0;
  ::raise(SIGWINCH);
  const auto mine = reinterpret_cast<std::uintptr_t>(&here);
  const std::uintptr_t there = handled_at;
  return there > mine ? there - mine : mine - there;
}

constexpr std::uintptr_t kFar = 64 << 10;

TEST(SignalHandling, IsNotOnTheStackThatASignalInterrupts) {
  struct sigaction before {};
  ::sigaction(SIGWINCH, nullptr, &before);
  handle_signal(SIGWINCH, note_where);
  EXPECT_GT(distance(), kFar);
  std::thread([] {
    EXPECT_LT(distance(), kFar) << "the control: a thread without a stack for them";
    install_signal_stack();
    install_signal_stack();
    EXPECT_GT(distance(), kFar);
  }).join();
  ::sigaction(SIGWINCH, &before, nullptr);
}

TEST(SignalHandling, IsSoForAllThatAreWatched) {
  const StopSignalWatch stop;
  const NoticeWatch notice;
  for (const int signal : {SIGINT, SIGTERM, kNoticeSignal}) {
    struct sigaction present {};
    ::sigaction(signal, nullptr, &present);
    EXPECT_NE(present.sa_flags & SA_ONSTACK, 0) << signal;
  }
}

TEST(SignalHandling, LeavesAStackThatAThreadHas) {
  std::thread([] {
    static char own[1 << 16];
    stack_t mine{};
    mine.ss_sp = own;
    mine.ss_size = sizeof own;
    ASSERT_EQ(::sigaltstack(&mine, nullptr), 0);
    install_signal_stack();
    stack_t present{};
    ::sigaltstack(nullptr, &present);
    EXPECT_EQ(present.ss_sp, own);
  }).join();
}

}  // namespace
}  // namespace accrue
