#pragma once

#include <csignal>

namespace accrue {

/// The signal with which a scheduler announces that it will take the machine away (preemption).
inline constexpr int kNoticeSignal = SIGUSR2;

/// During its lifetime, the notice signal is recorded instead of ending the program. Several at
/// once count as one. The record is process-wide, like signals; an object inside another's lifetime
/// still has an earlier notice.
class NoticeWatch {
 public:
  NoticeWatch();
  ~NoticeWatch();
  NoticeWatch(const NoticeWatch&) = delete;
  NoticeWatch& operator=(const NoticeWatch&) = delete;

  /// Whether a notice was given that was not taken yet.
  bool is_given() const;
  /// Gives notice, like the signal.
  void give() const;
  /// Takes the notice, so that it is handled once. Returns whether there was one.
  bool take() const;

 private:
  struct sigaction previous_action_ {};
};

}  // namespace accrue
