#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "accrue/distributed/launch.h"
#include "distributed/group/run_until.h"

namespace accrue::distributed {

/// Says once, when a process has waited for a while for those that it was started with, for whom it
/// waits and which variables made it do so: one of several ranks that somebody started alone would
/// be silent for as long as it waits.
class WaitingNote {
 public:
  using Tell = std::function<void(const std::string& note)>;

  /// A process that waits `timeout` at most, from now on. Null: nobody is told.
  WaitingNote(const Launch& launch, std::chrono::milliseconds timeout, Tell tell);

  /// When it is to be said; far off once it was.
  Deadline due() const { return due_; }
  bool is_due() const { return std::chrono::steady_clock::now() >= due_; }
  /// Says that it waits for `whom`, and is then never due again.
  void say(const std::string& whom);
  /// It is for another rank to say.
  void leave_to_others() { due_ = Deadline::max(); }

 private:
  std::string reason_;
  Tell tell_;
  Deadline due_;
};

}  // namespace accrue::distributed
