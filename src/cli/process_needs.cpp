#include "cli/process_needs.h"

#include <system_error>
#include <thread>

#include "accrue/core/error.h"

namespace accrue::cli {
namespace {

const char* suggestion_for(const std::error_code& error) {
  if (error == std::errc::operation_not_permitted)
    return "a newer container runtime: an old seccomp profile refuses system calls that it does "
           "not know (clone3) in place of reporting that they are missing (Docker 20.10.10 and "
           "libseccomp 2.5.2 are new enough), or --security-opt seccomp=unconfined";
  return "a higher limit of processes and threads (ulimit -u, the container's pids.max)";
}

}  // namespace

void expect_what_a_process_needs() {
  try {
    std::thread([] {}).join();
  } catch (const std::system_error& error) {
    throw runtime_error("start", "a system that lets this process start threads",
                        error.code().message(), suggestion_for(error.code()));
  }
}

}  // namespace accrue::cli
