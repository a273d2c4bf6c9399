#pragma once

#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

namespace accrue {

/// Threads that run work next to their caller. The system may refuse one at any time: a user's
/// limit on processes, a control group's pids.max, or memory for its stack may be exhausted, also
/// by other programs. The caller can do the work of a helper thread instead, and then waits.

/// Starts a thread that runs `work`. If the system refuses it, nothing is run, and the returned
/// thread is not joinable.
template <class Thread = std::thread, class Work>
Thread start_thread(Work work) {
  try {
    return Thread(std::move(work));
  } catch (const std::system_error&) {
    return Thread();
  }
}

/// The result of run_on_helper().
template <class Result>
struct HelperTask {
  std::future<Result> result;  ///< its destructor waits
  bool in_place = false;       ///< the caller ran the work, and it is done
};

/// Runs `work` on a separate thread, or in place if the system refuses one. Exceptions are in the
/// result in both cases.
template <class Work>
HelperTask<std::invoke_result_t<Work&>> run_on_helper(const Work& work) {
  try {
    return {.result = std::async(std::launch::async, work), .in_place = false};
  } catch (const std::system_error&) {
    std::packaged_task<std::invoke_result_t<Work&>()> task(work);
    HelperTask<std::invoke_result_t<Work&>> begun{.result = task.get_future(), .in_place = true};
    task();
    return begun;
  }
}

/// "WHAT by the thread that trains, which waits for it: the system starts no thread more (...)".
inline std::string in_place_in_words(const std::string& what) {
  return what +
         " by the thread that trains, which waits for it: the system starts no other thread (the "
         "limits are ulimit -u, pids.max of the control group, and memory for stacks)";
}

}  // namespace accrue
