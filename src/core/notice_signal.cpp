#include "core/notice_signal.h"

#include <atomic>

namespace accrue {
namespace {

// A signal handler can reach nothing but statics; this takes no lock.
std::atomic<bool> notice_given{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_notice(int) { notice_given = true; }

}  // namespace

NoticeWatch::NoticeWatch() {
  ::sigaction(kNoticeSignal, nullptr, &previous_action_);
  if (previous_action_.sa_handler != note_notice) notice_given = false;
  struct sigaction action {};
  action.sa_handler = note_notice;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(kNoticeSignal, &action, nullptr);
}

NoticeWatch::~NoticeWatch() { ::sigaction(kNoticeSignal, &previous_action_, nullptr); }

bool NoticeWatch::is_given() const { return notice_given; }

void NoticeWatch::give() const { notice_given = true; }

bool NoticeWatch::take() const { return notice_given.exchange(false); }

}  // namespace accrue
