#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "accrue/distributed/launch.h"
#include "distributed/group/network/run_until.h"

namespace accrue::distributed {

/// Reports once, when a process has waited for a while for those that it was started with, for
/// which ones it waits and which variables made it do so: one of several ranks that was started
/// alone would otherwise be silent while it waits.
class WaitingNote {
 public:
  using Tell = std::function<void(const std::string& note)>;

  /// A process that waits `timeout` at most, from now on. Null: no report.
  WaitingNote(const Launch& launch, std::chrono::milliseconds timeout, Tell tell);

  /// When the report is due; in the far future once it was made.
  Deadline due() const { return due_; }
  bool is_due() const { return std::chrono::steady_clock::now() >= due_; }
  /// Reports that it waits for `whom`; after that it is never due again.
  void say(const std::string& whom);
  /// Another rank reports it.
  void leave_to_others() { due_ = Deadline::max(); }

 private:
  std::string reason_;
  Tell tell_;
  Deadline due_;
};

}  // namespace accrue::distributed
