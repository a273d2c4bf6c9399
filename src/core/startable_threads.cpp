#include "core/startable_threads.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/helper_thread.h"

namespace accrue {
namespace {

/// A joined thread counts until the kernel has removed it from the process.
void wait_until_gone(pid_t thread) {
  constexpr std::chrono::seconds kLongest{1};
  const auto end = std::chrono::steady_clock::now() + kLongest;
  const std::string entry = "/proc/self/task/" + std::to_string(thread);
  std::error_code unreadable;
  while (std::filesystem::exists(entry, unreadable) && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
}

}  // namespace

std::int64_t startable_threads(std::int64_t most) {
  struct Parked {
    std::atomic<pid_t> id = 0;
    std::thread thread;
  };
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::unique_ptr<Parked>> all;
  while (std::ssize(all) < most) {
    auto parked = std::make_unique<Parked>();
    parked->thread = start_thread([ended, id = &parked->id] {
      *id = ::gettid();
      ended.wait();
    });
    if (!parked->thread.joinable()) break;
    all.push_back(std::move(parked));
  }
  end.set_value();
  for (const auto& parked : all) parked->thread.join();
  for (const auto& parked : all) wait_until_gone(parked->id);
  return std::ssize(all);
}

}  // namespace accrue
