#include "memory/state_file.h"

#include <ATen/record_function.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "core/nameless_file.h"
#include "memory/disk_traffic.h"

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546  // older headers lack it
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // of Linux 5.14; older headers lack it
#endif

namespace accrue::memory {
namespace {

constexpr const char* kOperation = "offload state (memory.offload)";

::off_t offset(std::size_t bytes) { return static_cast<::off_t>(bytes); }

/// Addresses for a file as large as the disk, within what processors can address. Throws if the
/// folder is on no disk.
std::size_t addressable_bytes(const std::string& folder) {
  constexpr std::size_t kMost = std::size_t{16} << 40;
  struct statfs system {};
  if (::statfs(folder.c_str(), &system) != 0)
    throw usage_error(kOperation, "a folder on a disk", folder + ": " + std::strerror(errno),
                      "a folder that exists");
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)
    throw usage_error(kOperation, "a folder on a disk",
                      folder + ", which lies in memory itself (tmpfs)",
                      "a folder on a local disk, for example beside the run folder");
  const auto block = static_cast<std::size_t>(system.f_bsize);
  const auto blocks = static_cast<std::size_t>(system.f_blocks);
  return blocks == 0 || blocks > kMost / block ? kMost : down_to_page(blocks * block);
}

bool lies_on(const Descriptor& file, unsigned file_system) {
  struct statfs system {};
  return ::fstatfs(file.get(), &system) == 0 && static_cast<unsigned>(system.f_type) == file_system;
}

/// A process reads for a file system in user space.
bool kernel_counts_reads(const Descriptor& file) { return !lies_on(file, FUSE_SUPER_MAGIC); }

/// An overlay's pages are those of another file, which cannot be asked for.
bool kernel_counts_writes(const Descriptor& file) {
  return !lies_on(file, OVERLAYFS_SUPER_MAGIC) &&
         changed_bytes(file.get(), 0, page_bytes()).has_value();
}

}  // namespace

StateFile::StateFile(const std::filesystem::path& folder, std::optional<std::int64_t> budget)
    : folder_(folder.string()),
      budget_(budget),
      reserved_(addressable_bytes(folder_)),
      file_(nameless_file(kOperation, folder)),
      counts_reads_(kernel_counts_reads(file_)),
      counts_writes_(kernel_counts_writes(file_)) {
  void* const base = ::mmap(nullptr, reserved_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                            file_.get(), 0);
  if (base == MAP_FAILED)
    throw usage_error(kOperation, "addresses for a file on " + folder_, std::strerror(errno),
                      "a larger limit of addresses (ulimit -v)");
  base_ = static_cast<std::byte*>(base);
}

StateFile::~StateFile() {
  if (base_ != nullptr) ::munmap(base_, reserved_);
}

FileRange StateFile::range_of(const void* data, std::size_t bytes) const {
  const auto begin = static_cast<std::size_t>(static_cast<const std::byte*>(data) - base_);
  return {down_to_page(begin), up_to_page(begin + bytes)};
}

std::size_t StateFile::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

std::int64_t StateFile::bytes_in_blocks() const {
  const std::lock_guard lock(mutex_);
  return bytes_in_blocks_;
}

Error StateFile::refused_by_disk(const std::string& reason) const {
  return runtime_error("move offloaded state (memory.offload)", "a disk that reads and writes",
                       folder_ + ": " + reason,
                       "another folder, and --resume from the last checkpoint");
}

void* StateFile::take(std::size_t bytes) {
  const std::size_t capacity = up_to_page(bytes);
  const std::lock_guard lock(mutex_);
  const std::optional<std::size_t> found = reuse(capacity);
  const std::size_t place = found ? *found : append(capacity);
  in_use_[place] = {capacity, bytes};
  bytes_in_blocks_ += static_cast<std::int64_t>(bytes);
  return base_ + place;
}

/// The first free part that is large enough.
std::optional<std::size_t> StateFile::reuse(std::size_t capacity) {
  const auto found =
      std::ranges::find_if(free_, [&](const auto& part) { return part.second >= capacity; });
  if (found == free_.end()) return std::nullopt;
  const auto [place, size] = *found;
  free_.erase(found);
  if (size > capacity) free_[place + capacity] = size - capacity;
  return place;
}

void StateFile::expect_within_budget(std::size_t end) const {
  const auto needed = static_cast<std::int64_t>(end);
  if (!budget_ || needed <= *budget_) return;
  throw Error(
      Error::Kind::refused, kOperation,
      "at least " + format_bytes_rounded_up(needed) + " for the state, in a file in " + folder_,
      "memory.offload_budget, which allows " + format_bytes(*budget_),
      "a larger memory.offload_budget, optim.state = \"bf16\", or a smaller model");
}

std::size_t StateFile::append(std::size_t capacity) {
  RECORD_USER_SCOPE("offload: reserve");
  expect_within_budget(end_ + capacity);
  const int error = capacity > reserved_ - end_
                        ? ENOSPC
                        : ::posix_fallocate(file_.get(), offset(end_), offset(capacity));
  if (error != 0)
    throw runtime_error(
        kOperation,
        format_bytes(static_cast<std::int64_t>(capacity)) + " more on the disk of " + folder_,
        std::generic_category().message(error) + " after " +
            format_bytes(static_cast<std::int64_t>(end_)),
        "a folder on a disk with more room, or optim.state = \"bf16\"");
  const std::size_t place = end_;
  end_ += capacity;
  return place;
}

bool StateFile::give_back(void* data) {
  if (!holds(data)) return false;
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(static_cast<std::size_t>(static_cast<std::byte*>(data) - base_));
  if (found == in_use_.end()) return false;
  const auto [place, block] = *found;
  in_use_.erase(found);
  bytes_in_blocks_ -= static_cast<std::int64_t>(block.bytes);
  FileRange part{place, place + block.capacity};
  zero_pages(part);
  if (const auto next = free_.find(part.end); next != free_.end()) {
    part.end += next->second;
    free_.erase(next);
  }
  if (auto next = free_.lower_bound(part.begin); next != free_.begin()) {
    if (const auto before = std::prev(next); before->first + before->second == part.begin) {
      part.begin = before->first;
      free_.erase(before);
    }
  }
  free_[part.begin] = part.bytes();
  return true;
}

/// Keeps the disk space, so that a later write cannot lack it. A forked child frees its tensors,
/// too, but the file is its parent's.
void StateFile::zero_pages(const FileRange& range) const {
  if (range.begin >= range.end || ::getpid() != owner_) return;
  if (::fallocate(file_.get(), FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset(range.begin),
                  offset(range.bytes())) == 0)
    return;
  std::memset(base_ + range.begin, 0, range.bytes());
}

void StateFile::make_zero(void* data, std::size_t bytes) {
  auto* const first = static_cast<std::byte*>(data);
  const auto begin = static_cast<std::size_t>(first - base_);
  const FileRange whole{up_to_page(begin), down_to_page(begin + bytes)};
  if (whole.begin >= whole.end) {
    std::memset(first, 0, bytes);
    return;
  }
  std::memset(first, 0, whole.begin - begin);
  std::memset(base_ + whole.end, 0, begin + bytes - whole.end);
  zero_pages(whole);
}

/// Reading through the mapping takes large pages, and maps them at once. Kernels before Linux 5.14
/// cannot do that; they are asked in steps, because they cut each request off at the device's
/// read-ahead.
bool StateFile::read(const FileRange& range) const {
  if (::madvise(base_ + range.begin, range.bytes(), MADV_POPULATE_READ) == 0) return true;
  if (errno == EFAULT) {
    errno = EIO;  // the kernel's word for a page that cannot be read
    return false;
  }
  if (errno != EINVAL) return true;
  constexpr std::size_t kStepBytes = std::size_t{128} << 10;
  for (std::size_t at = range.begin; at < range.end; at += kStepBytes)
    ::posix_fadvise(file_.get(), offset(at), offset(std::min(kStepBytes, range.end - at)),
                    POSIX_FADV_WILLNEED);
  return true;
}

std::int64_t StateFile::changed_in(const FileRange& range) const {
  if (!counts_writes_) return 0;
  return changed_bytes(file_.get(), range.begin, range.end).value_or(0);
}

/// Other threads may change pages meanwhile: there are never fewer than 0 bytes.
std::optional<std::int64_t> StateFile::begin_writing(const FileRange& range) const {
  ::madvise(base_ + range.begin, range.bytes(), MADV_DONTNEED);
  const std::int64_t changed = changed_in(range);
  if (::sync_file_range(file_.get(), offset(range.begin), offset(range.bytes()),
                        SYNC_FILE_RANGE_WRITE) != 0)
    return std::nullopt;
  return changed == 0 ? 0 : std::max<std::int64_t>(0, changed - changed_in(range));
}

/// Pages that are mapped stay in memory, so the addresses are unmapped first: the pages take over
/// what was written through them. A page that is touched again in between is only kept.
std::optional<std::int64_t> StateFile::take_out_of_memory(const FileRange& range) const {
  constexpr unsigned kWriteAndWait =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  ::madvise(base_ + range.begin, range.bytes(), MADV_DONTNEED);
  const std::int64_t changed = changed_in(range);
  if (::sync_file_range(file_.get(), offset(range.begin), offset(range.bytes()), kWriteAndWait) !=
      0)
    return std::nullopt;
  ::posix_fadvise(file_.get(), offset(range.begin), offset(range.bytes()), POSIX_FADV_DONTNEED);
  return changed;
}

}  // namespace accrue::memory
