#pragma once

#include <csignal>

namespace accrue {

/// The signal by which a scheduler gives notice that it will take the machine away (preemption).
inline constexpr int kNoticeSignal = SIGUSR2;

/// While it lives, the notice signal is noted instead of ending the program. Several at once are
/// one. The note is process-wide, since signals are; where one object lives within another's time,
/// a notice that came before is still there.
class NoticeWatch {
 public:
  NoticeWatch();
  ~NoticeWatch();
  NoticeWatch(const NoticeWatch&) = delete;
  NoticeWatch& operator=(const NoticeWatch&) = delete;

  /// Whether notice was given that was not taken yet.
  bool is_given() const;
  /// Gives notice, as the signal does.
  void give() const;
  /// Takes the notice, so that it is answered once. Returns whether it was given.
  bool take() const;

 private:
  struct sigaction previous_action_ {};
};

}  // namespace accrue
