#include "cli/process/standard_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "accrue/core/error.h"
#include "cli/process/print_error.h"

namespace accrue::cli {
namespace {

/// A pipe is never full for good: writing to it fails only if it has no reader any more.
bool goes_to_a_reader() {
  struct stat status {};
  return ::fstat(STDOUT_FILENO, &status) == 0 &&
         (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

bool all_is_written() {
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  return flushed && std::cout.good() && std::ferror(stdout) == 0;
}

}  // namespace

void occupy_standard_streams() {
  // The lowest number is used first. A descriptor opened for reading cannot be written to.
  for (int opened = ::open("/dev/null", O_RDONLY); opened >= 0;
       opened = ::open("/dev/null", O_RDONLY)) {
    if (opened <= STDERR_FILENO) continue;
    ::close(opened);
    return;
  }
}

int finish_output(int status) {
  if (all_is_written() || goes_to_a_reader()) return status;
  const Error error = runtime_error("write to standard output", "room for all of it",
                                    "an error of the system (a full disk, or a closed stream)",
                                    "another place for it");
  if (status == 0) throw error;
  print_error(error.what());
  return status;
}

}  // namespace accrue::cli
