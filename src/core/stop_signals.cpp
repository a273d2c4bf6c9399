#include "core/stop_signals.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "core/signal_handling.h"

namespace accrue {
namespace {

constexpr std::int64_t kTogetherNanoseconds = 2'000'000'000;

// A signal handler can only access statics; these take no lock.
std::atomic<std::int64_t> first_arrived{0};  ///< nanoseconds on the monotonic clock; 0: none so far
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
std::array<struct sigaction, kStopSignals.size()> previous_actions;

std::int64_t monotonic_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void do_as_before(int signal) {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i)
    if (kStopSignals[i] == signal) ::sigaction(signal, &previous_actions[i], nullptr);
  ::raise(signal);
}

void note_signal(int signal) {
  const int error = errno;
  const std::int64_t now = monotonic_nanoseconds();
  std::int64_t first = 0;
  const bool is_first = first_arrived.compare_exchange_strong(first, now);
  if (!is_first && signal != SIGXCPU && now - first > kTogetherNanoseconds) do_as_before(signal);
  errno = error;
}

}  // namespace

StopSignalWatch::StopSignalWatch() {
  first_arrived = 0;
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    ::sigaction(kStopSignals[i], nullptr, &previous_actions[i]);
    const bool stays = kStopSignals[i] == SIGHUP && previous_actions[i].sa_handler == SIG_IGN;
    if (!stays) handle_signal(kStopSignals[i], note_signal, SA_RESTART);
  }
}

StopSignalWatch::~StopSignalWatch() {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i)
    ::sigaction(kStopSignals[i], &previous_actions[i], nullptr);
}

bool StopSignalWatch::interrupted() const { return first_arrived != 0; }

}  // namespace accrue
