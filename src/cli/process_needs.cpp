#include "cli/process_needs.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <thread>

#include "accrue/core/error.h"

namespace accrue::cli {
namespace {

void expect_working_directory() {
  std::error_code error;
  (void)std::filesystem::current_path(error);
  if (!error) return;
  const bool is_gone = error == std::errc::no_such_file_or_directory;
  throw usage_error(
      "start", "a working directory that is there",
      is_gone ? "one that was deleted" : "one that cannot be looked up: " + error.message(),
      "cd to another folder");
}

const char* suggestion_for(const std::error_code& error) {
  if (error == std::errc::operation_not_permitted)
    return "a newer container runtime: an old seccomp profile refuses system calls that it does "
           "not know (clone3) in place of reporting that they are missing (Docker 20.10.10 and "
           "libseccomp 2.5.2 are new enough), or --security-opt seccomp=unconfined";
  return "a higher limit of processes and threads (ulimit -u, the container's pids.max)";
}

void expect_threads() {
  try {
    std::thread([] {}).join();
  } catch (const std::system_error& error) {
    throw runtime_error("start", "a system that lets this process start threads",
                        error.code().message(), suggestion_for(error.code()));
  }
}

}  // namespace

void expect_what_a_process_needs() {
  expect_working_directory();
  expect_threads();
}

}  // namespace accrue::cli
