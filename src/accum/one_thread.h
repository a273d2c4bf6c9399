#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "accrue/core/error.h"

namespace accrue::accum {

/// Lets one thread at a time into the calls of an object, which may call each other, and again from
/// a callback. A second thread is refused and not kept waiting: a caller that held Python's
/// interpreter meanwhile would keep the first one's callbacks from it.
class OneThread {
 public:
  explicit OneThread(const char* object) : object_(object) {}

  /// The time of one call.
  class Call {
   public:
    /// Throws a usage Error, of `operation`, where another thread is in a call.
    Call(OneThread& of, const char* operation) : of_(of) {
      const std::thread::id self = std::this_thread::get_id();
      if (of_.inside_.load(std::memory_order_relaxed) == self) return;
      std::thread::id nobody;
      if (!of_.inside_.compare_exchange_strong(nobody, self, std::memory_order_acquire))
        throw usage_error(operation,
                          std::string("calls of one thread at a time to this ") + of_.object_,
                          "one of a second thread while another thread is in a call",
                          "one thread, or a mutex that each holds from its forward pass to the end "
                          "of the call");
      is_outermost_ = true;
    }
    ~Call() {
      if (is_outermost_) of_.inside_.store({}, std::memory_order_release);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    OneThread& of_;
    bool is_outermost_ = false;
  };

 private:
  const char* object_;
  std::atomic<std::thread::id> inside_{};
};

}  // namespace accrue::accum
