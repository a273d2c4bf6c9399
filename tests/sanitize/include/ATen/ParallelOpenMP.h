#pragma once
// Replaces libtorch's header of this name in builds by clang with sanitizers: at::parallel_for runs
// in our own threads. They get the chunks that libtorch's header gives OpenMP's threads, so that
// sanitizers see what each chunk reads and writes.

#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#define INTRA_OP_PARALLEL

namespace at::internal {

template <typename F>
inline void invoke_parallel(std::int64_t begin, std::int64_t end, std::int64_t grain_size,
                            const F& f) {
  // A loop within a loop runs in its caller's thread.
  if (c10::ParallelGuard::is_enabled()) {
    f(begin, end);
    return;
  }
  std::int64_t num_threads = at::get_num_threads();
  if (grain_size > 0) num_threads = std::min(num_threads, divup(end - begin, grain_size));
  const std::int64_t chunk_size = divup(end - begin, num_threads);
  const std::int64_t chunks = divup(end - begin, chunk_size);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(chunks));
  const auto run = [&](std::int64_t chunk) {
    try {
      ThreadIdGuard guard(static_cast<int>(chunk));
      const std::int64_t from = begin + chunk * chunk_size;
      f(from, std::min(end, from + chunk_size));
    } catch (...) {
      failures[static_cast<std::size_t>(chunk)] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::int64_t chunk = 1; chunk < chunks; ++chunk) threads.emplace_back(run, chunk);
  run(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace at::internal
