#include "cli/process/process_needs.h"

#include <system_error>
#include <thread>

#include "accrue/core/error.h"

namespace accrue::cli {

void require_startable_threads() {
  try {
    std::thread([] {}).join();
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::operation_not_permitted) return;
    throw runtime_error(
        "start", "a system that lets this process start threads", error.code().message(),
        "a newer container runtime: an old seccomp profile refuses system calls that it does not "
        "know (clone3) in place of reporting that they are missing (Docker 20.10.10 and libseccomp "
        "2.5.2 are new enough), or --security-opt seccomp=unconfined");
  }
}

}  // namespace accrue::cli
