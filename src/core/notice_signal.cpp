#include "core/notice_signal.h"

#include <atomic>

#include "core/signal_handling.h"

namespace accrue {
namespace {

// A signal handler can only access statics; this takes no lock.
std::atomic<bool> notice_given{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_notice(int) { notice_given = true; }

}  // namespace

NoticeWatch::NoticeWatch() {
  ::sigaction(kNoticeSignal, nullptr, &previous_action_);
  if (previous_action_.sa_handler != note_notice) notice_given = false;
  handle_signal(kNoticeSignal, note_notice, SA_RESTART);
}

NoticeWatch::~NoticeWatch() { ::sigaction(kNoticeSignal, &previous_action_, nullptr); }

bool NoticeWatch::is_given() const { return notice_given; }

void NoticeWatch::give() const { notice_given = true; }

bool NoticeWatch::take() const { return notice_given.exchange(false); }

}  // namespace accrue
