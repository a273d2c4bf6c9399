#pragma once

#include <ATen/record_function.h>

#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

namespace accrue::testing {

/// While it exists, runs an action whenever this process reaches a span of a trace, on the thread
/// that reaches it. Only one may exist at a time.
class AtSpan {
 public:
  AtSpan(std::string name, std::function<void()> action) {
    set({std::move(name), std::move(action)});
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback(&begin).scopes({at::RecordScope::USER_SCOPE}));
  }
  /// Waits until no thread is in the action.
  ~AtSpan() {
    at::removeCallback(handle_);
    set({});
  }
  AtSpan(const AtSpan&) = delete;
  AtSpan& operator=(const AtSpan&) = delete;

 private:
  struct Watched {
    std::string name;
    std::function<void()> action;
  };
  // A callback has no state of its own. Threads may be in the action at the same time.
  static inline Watched watched_;
  static inline std::shared_mutex mutex_;

  static void set(Watched watched) {
    const std::unique_lock lock(mutex_);
    watched_ = std::move(watched);
  }
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& span) {
    const std::shared_lock lock(mutex_);
    if (watched_.action && watched_.name == span.name()) watched_.action();
    return nullptr;
  }

  at::CallbackHandle handle_ = 0;
};

}  // namespace accrue::testing
