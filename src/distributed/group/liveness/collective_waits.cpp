#include "distributed/group/liveness/collective_waits.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace accrue::distributed {
namespace {

/// How often a device is polled: a small part of the time of a reduction or a step.
constexpr std::chrono::microseconds kAskDevice{50};

/// Opened once: by the end of a collective, or by the waiter that gives it up.
class Latch {
 public:
  void open(bool is_done) {
    const std::scoped_lock lock(mutex_);
    if (!is_done_) is_done_ = is_done;
    opened_.notify_all();
  }
  /// Returns whether the collective's end opened it.
  bool wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return is_done_.has_value(); });
    return *is_done_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  std::optional<bool> is_done_;
};

}  // namespace

bool wait_for_collective(c10d::Work& work, Heartbeat& heartbeat, Deadline until) {
  const auto latch = std::make_shared<Latch>();
  const Heartbeat::Guard guard(heartbeat, until, [latch] { latch->open(false); });
  work.getFuture()->addCallback([latch](c10::ivalue::Future&) { latch->open(true); });
  return latch->wait() && work.wait();
}

bool wait_for_passing(c10d::Work& work, Heartbeat& heartbeat, Deadline until) {
  const Heartbeat::Guard guard(heartbeat, until, [&work] { work.abort(); });
  return work.wait();
}

bool wait_on_device(c10d::Work& work, Heartbeat& heartbeat, Deadline until) {
  std::atomic<bool> is_given_up = false;
  const Heartbeat::Guard guard(heartbeat, until, [&is_given_up] { is_given_up = true; });
  while (!work.isCompleted()) {
    if (is_given_up) return false;
    std::this_thread::sleep_for(kAskDevice);
  }
  return work.wait();
}

}  // namespace accrue::distributed
