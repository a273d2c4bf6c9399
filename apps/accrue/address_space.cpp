// A limit of the address space (ulimit -v) that leaves too little.
//
// libtorch's constructors take memory, and end the process by an exception that nobody can catch
// ("terminate called after throwing an instance of 'std::bad_alloc'") if there is none. So what is
// left is looked at before that.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "before_libraries.h"
#include "early_error.h"

namespace accrue::cli {
namespace {

/// What constructors of libraries and the first allocations of main take (measured: 40 MiB), and
/// the passes of the smallest run (90 to 98 MiB with these). With less, libraries fail in ways of
/// their own: oneDNN refuses products, and some runs end by a signal.
constexpr std::uint64_t kToStart = std::uint64_t{112} << 20;

/// The address space that is taken, the program and its libraries above all; 0: not known.
std::uint64_t bytes_taken() {
  std::array<char, 32> text{};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  std::uint64_t pages = 0;
  for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i)
    pages = 10 * pages + static_cast<std::uint64_t>(text[i] - '0');
  return pages * static_cast<std::uint64_t>(::getpagesize());
}

}  // namespace

void expect_address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const std::uint64_t needed = bytes_taken() + kToStart;
  if (limit.rlim_cur >= needed) return;
  write_early("error: start: expected ");
  write_early_mebibytes(needed);
  write_early(" of address space for the libraries and the smallest run, received a limit of ");
  write_early_mebibytes(limit.rlim_cur);
  write_early("; try ulimit -v unlimited, and memory.budget to limit what a run holds\n");
  end_early();
}

}  // namespace accrue::cli
