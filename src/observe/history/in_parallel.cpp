#include "observe/history/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <vector>

#include "core/helper_thread.h"
#include "core/machine.h"

namespace accrue::observe {

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto take_all = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const auto threads = std::min(count, static_cast<std::size_t>(granted_threads()));
  std::vector<std::future<void>> helpers;
  for (std::size_t i = 1; i < threads; ++i) helpers.push_back(run_on_helper(take_all).result);
  take_all();
  for (std::future<void>& helper : helpers) helper.get();
}

}  // namespace accrue::observe
