#include "memory/disk_rates.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "core/descriptor.h"
#include "core/nameless_file.h"

namespace accrue::memory {
namespace {

constexpr const char* kMeasuring = "measure the disk (memory.offload)";
constexpr std::size_t kTransferBytes = std::size_t{4} << 20;
constexpr double kMostSeconds = 1;
/// Direct transfers need memory, offsets and lengths that are multiples of the disk's blocks.
constexpr std::size_t kDirectAlignment = 4096;

struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};
using AlignedBytes = std::unique_ptr<std::byte, Freed>;

/// Random bytes, which a disk or a file system cannot compress.
AlignedBytes random_transfer() {
  AlignedBytes bytes(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, kTransferBytes)));
  if (!bytes) throw std::bad_alloc();
  std::mt19937_64 random(1);
  for (std::size_t at = 0; at < kTransferBytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(bytes.get() + at, &word, sizeof word);
  }
  return bytes;
}

/// Makes transfers bypass the page cache, if the file system can; otherwise the cache is emptied
/// before reading.
void ask_for_direct_transfers(const Descriptor& file) {
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags >= 0) ::fcntl(file.get(), F_SETFL, flags | O_DIRECT);
}

[[noreturn]] void refuse(const char* expected, ::ssize_t moved) {
  throw runtime_error(kMeasuring, expected,
                      moved < 0 ? std::strerror(errno) : std::to_string(moved) + " bytes",
                      "a folder on another disk");
}

template <class Transfer>
::ssize_t uninterrupted(Transfer transfer) {
  for (;;) {
    const ::ssize_t moved = transfer();
    if (moved >= 0 || errno != EINTR) return moved;
  }
}

::off_t offset_of(std::int64_t transfer) {
  return static_cast<::off_t>(transfer) * static_cast<::off_t>(kTransferBytes);
}

double rate_of(std::int64_t transfers, double seconds) {
  return static_cast<double>(transfers) * static_cast<double>(kTransferBytes) / seconds;
}

}  // namespace

DiskRates measure_disk_rates(const std::filesystem::path& folder, std::int64_t most_bytes) {
  const Descriptor file = nameless_file(kMeasuring, folder);
  const AlignedBytes bytes = random_transfer();
  ask_for_direct_transfers(file);
  DiskRates rates;
  const std::int64_t most = std::min(most_bytes, kMostMeasuredBytes) / std::int64_t{kTransferBytes};
  std::int64_t written = 0;
  Stopwatch watch;
  while (written == 0 || (written < most && watch.seconds() < kMostSeconds)) {
    const ::ssize_t moved = uninterrupted(
        [&] { return ::pwrite(file.get(), bytes.get(), kTransferBytes, offset_of(written)); });
    if (moved != static_cast<::ssize_t>(kTransferBytes)) refuse("a disk that takes 4 MiB", moved);
    ++written;
  }
  if (::fdatasync(file.get()) != 0) refuse("a disk that keeps what is written", -1);
  rates.write = rate_of(written, watch.seconds());
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  std::int64_t read = 0;
  watch.restart();
  while (read < written && (read == 0 || watch.seconds() < kMostSeconds)) {
    const ::ssize_t moved = uninterrupted(
        [&] { return ::pread(file.get(), bytes.get(), kTransferBytes, offset_of(read)); });
    if (moved != static_cast<::ssize_t>(kTransferBytes)) refuse("the 4 MiB written", moved);
    ++read;
  }
  rates.read = rate_of(read, watch.seconds());
  return rates;
}

}  // namespace accrue::memory
