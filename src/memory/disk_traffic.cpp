#include "memory/disk_traffic.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451  // of Linux 6.5; older headers lack it
#endif

namespace accrue::memory {
namespace {

/// The two structures of cachestat(), as the kernel lays them out.
struct CountedRange {
  std::uint64_t offset = 0, length = 0;
};
struct PageCounts {
  std::uint64_t cached = 0, dirty = 0, in_writeback = 0, evicted = 0, recently_evicted = 0;
};

std::int64_t bytes_read_by(int whom) {
  constexpr std::int64_t kBlockBytes = 512;  // of getrusage(), whatever the disk's are
  struct rusage usage {};
  return ::getrusage(whom, &usage) == 0 ? kBlockBytes * usage.ru_inblock : 0;
}

}  // namespace

std::int64_t bytes_read_by_process() { return bytes_read_by(RUSAGE_SELF); }
std::int64_t bytes_read_by_thread() { return bytes_read_by(RUSAGE_THREAD); }

std::optional<std::int64_t> changed_bytes(int file, std::size_t begin, std::size_t end) {
  if (begin >= end) return 0;  // a length of 0 would count up to the end of the file
  CountedRange range{.offset = begin, .length = end - begin};
  PageCounts counts;
  if (::syscall(SYS_cachestat, file, &range, &counts, 0) != 0) return std::nullopt;
  return static_cast<std::int64_t>(counts.dirty) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace accrue::memory
