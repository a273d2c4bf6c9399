#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "accrue/core/error.h"

namespace accrue::accum {

/// Admits one thread at a time into the calls of an object, which may call each other, also from a
/// callback. A second thread is refused instead of waiting: a caller that holds Python's
/// interpreter would block the first one's callbacks while it waits.
class SingleThreadGuard {
 public:
  explicit SingleThreadGuard(const char* object) : object_(object) {}

  /// The duration of one call.
  class Call {
   public:
    /// Throws a usage Error, of `operation`, if another thread is in a call.
    Call(SingleThreadGuard& of, const char* operation) : of_(of) {
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
    SingleThreadGuard& of_;
    bool is_outermost_ = false;
  };

  /// The duration of a backward pass within a call. libtorch passes its mark to autograd's threads,
  /// which run the hooks of tensors on a device while the caller waits.
  class Backward {
   public:
    explicit Backward(const SingleThreadGuard& of)
        : mark_(c10::DebugInfoKind::PRODUCER_INFO, std::make_shared<Mark>(of, innermost())) {}

   private:
    c10::DebugInfoGuard mark_;
  };

  /// The duration of a call that only reads and never waits: hooks may make it on other threads.
  class Query {
   public:
    /// Throws like Call, unless this thread works for a Backward of the object.
    Query(SingleThreadGuard& of, const char* operation) {
      if (!of.works_for_backward()) call_.emplace(of, operation);
    }

   private:
    std::optional<Call> call_;
  };

 private:
  struct Mark final : c10::DebugInfoBase {
    Mark(const SingleThreadGuard& marked, const Mark* outer_mark) : of(marked), outer(outer_mark) {}
    const SingleThreadGuard& of;
    const Mark* outer;  ///< of the enclosing backward pass, or null
    /// Keeps `outer` alive as long as this exists.
    std::shared_ptr<c10::ThreadLocalDebugInfo> around = c10::ThreadLocalDebugInfo::current();
  };
  static const Mark* innermost() {
    return dynamic_cast<const Mark*>(
        c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PRODUCER_INFO));
  }
  bool works_for_backward() const {
    const Mark* mark = innermost();
    while (mark != nullptr && &mark->of != this) mark = mark->outer;
    return mark != nullptr;
  }

  const char* object_;
  std::atomic<std::thread::id> inside_{};
};

}  // namespace accrue::accum
