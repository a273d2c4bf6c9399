#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/helper_thread.h"

namespace accrue::distributed {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline from_now(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// Thrown if an answer did not come in time.
struct DeadlineExceeded : std::runtime_error {
  DeadlineExceeded() : std::runtime_error("no answer in time") {}
};

/// Returns or throws what `call()` does, or throws DeadlineExceeded if that takes longer than
/// `until`. `call` may block for ever and cannot be stopped: it runs on a separate thread, which
/// then is abandoned, so it owns whatever it uses. If the system cannot start a thread, it runs on
/// this one, and may take longer.
template <class Call>
std::invoke_result_t<Call&> run_until(Deadline until, Call call) {
  using Task = std::packaged_task<std::invoke_result_t<Call&>()>;
  const auto task = std::make_shared<Task>(std::move(call));
  auto result = task->get_future();
  std::thread thread = start_thread([task] { (*task)(); });
  if (!thread.joinable()) {
    (*task)();
    return result.get();
  }
  if (result.wait_until(until) == std::future_status::ready) {
    thread.join();
    return result.get();
  }
  thread.detach();
  throw DeadlineExceeded();
}

}  // namespace accrue::distributed
