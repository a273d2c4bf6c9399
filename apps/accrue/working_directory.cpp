// A working directory that was deleted, or may not be looked up.
//
// oneMKL, within libtorch, looks it up as it is loaded, and ends the process if it cannot ("oneMKL
// FATAL ERROR: Cannot load libtorch_cpu.so"). So it is looked up before that.
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "before_libraries.h"
#include "early_error.h"

namespace accrue::cli {
namespace {

constexpr std::size_t kRoomForPath = 4096;

}  // namespace

void expect_working_directory() {
  static std::array<char, kRoomForPath> path{};
  if (::syscall(SYS_getcwd, path.data(), path.size()) > 0 || errno == ERANGE) return;
  write_early("error: start: expected a working directory that is there, received ");
  write_early(errno == ENOENT ? "one that was deleted"
                              : "one that the system does not let this "
                                "process look up");
  write_early("; try cd to another folder\n");
  end_early();
}

}  // namespace accrue::cli
