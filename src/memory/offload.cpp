#include "memory/offload.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "memory/disk_traffic.h"
#include "memory/size_class.h"
#include "memory/state_file.h"
#include "memory/state_mover.h"
#include "memory/system_memory.h"
#include "memory/unreadable_pages.h"

namespace accrue::memory {
namespace {

/// Smaller tensors are not worth a transfer: all of a model's biases and norms are some megabytes.
constexpr std::size_t kSmallestOffloadedBytes = kSmallestCachedBytes;

/// A scope's file, and how much of it is in memory.
struct Offloaded {
  Offloaded(const std::filesystem::path& folder, std::optional<std::int64_t> budget)
      : file(std::make_shared<StateFile>(folder, budget)),
        unreadable(SIGBUS, file->addresses(), file->addressed_bytes(),
                   std::string("error: ") +
                       file->refused_by_disk("a page that was touched cannot be read").what() +
                       "\n"),
        mover(file),
        mapped_before(mapped_file_bytes()),
        read_before(bytes_read_by_process()) {}

  std::shared_ptr<StateFile> file;
  UnreadablePages unreadable;
  StateMover mover;
  std::atomic<std::int64_t> mapped_before;  ///< in other files: libraries, data
  std::atomic<std::int64_t> most_in_memory{0};
  std::int64_t read_before;  ///< by the process, before there was a file

  void measure() {
    const std::int64_t now = mapped_file_bytes() - mapped_before;
    std::int64_t most = most_in_memory;
    while (now > most && !most_in_memory.compare_exchange_weak(most, now)) {
    }
  }
};

/// The allocator is one for the process, and so is this. A file whose tensors outlive the scope
/// stays in `left`, until they are freed.
struct Registry {
  std::mutex mutex;
  std::shared_ptr<Offloaded> current;
  std::vector<std::shared_ptr<StateFile>> left;
  std::atomic<bool> is_used{false};  ///< whether there is any file, asked without the lock
};

Registry& registry() {
  static Registry& one = *new Registry;  // tensors in static variables outlive it otherwise
  return one;
}

std::shared_ptr<Offloaded> current() {
  Registry& all = registry();
  if (!all.is_used) return nullptr;
  const std::lock_guard lock(all.mutex);
  return all.current;
}

bool lies_in(const Offloaded& offloaded, const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
         tensor.has_storage() && tensor.numel() > 0 &&
         offloaded.file->holds(tensor.const_data_ptr());
}

/// From the first element to the end of the last one, whatever the strides.
std::size_t reached_bytes(const at::Tensor& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
}

std::vector<FileRange> ranges_of(const Offloaded& offloaded, std::span<const at::Tensor> tensors) {
  std::vector<FileRange> ranges;
  for (const at::Tensor& tensor : tensors)
    if (lies_in(offloaded, tensor))
      ranges.push_back(offloaded.file->range_of(tensor.const_data_ptr(), reached_bytes(tensor)));
  return merged(std::move(ranges));
}

}  // namespace

OffloadScope::OffloadScope(const std::filesystem::path& folder,
                           std::optional<std::int64_t> budget) {
  if (!caching_allocator_installed())
    throw usage_error("offload state (memory.offload)", "accrue's allocator",
                      "a program without it", "install_caching_allocator() in main()");
  auto offloaded = std::make_shared<Offloaded>(folder, budget);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.current)
    throw usage_error("offload state (memory.offload)", "one run at a time in a process",
                      "a second one, beside that in " + all.current->file->folder(),
                      "another process");
  all.current = std::move(offloaded);
  all.is_used = true;
}

OffloadScope::~OffloadScope() {
  Registry& all = registry();
  std::shared_ptr<Offloaded> ended;  // its thread ends without the lock
  const std::lock_guard lock(all.mutex);
  ended = std::exchange(all.current, nullptr);
  if (ended->file->bytes_in_blocks() > 0) all.left.push_back(ended->file);
  all.is_used = !all.left.empty();
}

bool is_offloading() { return current() != nullptr; }

bool is_offloaded(const at::Tensor& tensor) {
  const auto offloaded = current();
  return offloaded && lies_in(*offloaded, tensor);
}

void keep_in_memory(std::span<const at::Tensor> now, std::span<const at::Tensor> next) {
  const auto offloaded = current();
  if (!offloaded) return;
  offloaded->measure();
  offloaded->mover.request({ranges_of(*offloaded, now), ranges_of(*offloaded, next)});
}

void leave_memory() {
  const auto offloaded = current();
  if (!offloaded) return;
  offloaded->measure();
  offloaded->mover.request({});
  offloaded->mover.wait();
  offloaded->mapped_before = mapped_file_bytes();
}

void discard(const at::Tensor& tensor) {
  const auto offloaded = current();
  if (!offloaded || !lies_in(*offloaded, tensor)) return;
  if (!tensor.is_non_overlapping_and_dense())
    throw usage_error("discard offloaded values", "a tensor whose memory is its own",
                      "one with gaps or repeats", "its contiguous parts");
  offloaded->file->make_zero(tensor.data_ptr(), tensor.nbytes());
}

OffloadUsage offload_usage() {
  const auto offloaded = current();
  if (!offloaded) return {};
  OffloadUsage usage{.state = offloaded->file->bytes_in_blocks(),
                     .most_in_memory = offloaded->most_in_memory,
                     .read = std::nullopt,
                     .written = std::nullopt,
                     .wait_seconds = offloaded->mover.wait_seconds(),
                     .reading = offloaded->mover.reading(),
                     .writing = offloaded->mover.writing()};
  if (offloaded->file->counts_reads())
    usage.read = bytes_read_by_process() - offloaded->read_before;
  if (offloaded->file->counts_writes()) usage.written = offloaded->mover.written_bytes();
  return usage;
}

void* take_offloaded(std::size_t bytes, MemoryTag tag) {
  if (tag == MemoryTag::working || bytes < kSmallestOffloadedBytes) return nullptr;
  const auto offloaded = current();
  return offloaded ? offloaded->file->take(bytes) : nullptr;
}

bool give_back_offloaded(void* data) {
  Registry& all = registry();
  if (!all.is_used) return false;
  std::shared_ptr<StateFile> emptied;  // closed after the lock is released
  const std::lock_guard lock(all.mutex);
  if (all.current && all.current->file->give_back(data)) return true;
  const auto owner =
      std::ranges::find_if(all.left, [&](const auto& file) { return file->give_back(data); });
  if (owner == all.left.end()) return false;
  if ((*owner)->bytes_in_blocks() > 0) return true;
  emptied = std::move(*owner);
  all.left.erase(owner);
  all.is_used = all.current != nullptr || !all.left.empty();
  return true;
}

}  // namespace accrue::memory
