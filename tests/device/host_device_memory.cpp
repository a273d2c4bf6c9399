#include "device/host_device_memory.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "device/host_device.h"

namespace accrue::testing {
namespace {

/// The device's memory, which this process has mapped twice: the addresses of tensors cannot be
/// read or written, and the device's own copies use the other mapping.
class Arena {
 public:
  Arena() {
    const int file = ::memfd_create("host device", MFD_CLOEXEC);
    TORCH_CHECK(file >= 0 && ::ftruncate(file, kBytes) == 0, "no memory for the device");
    closed_ = map(file, PROT_NONE);
    open_ = map(file, PROT_READ | PROT_WRITE);
    ::close(file);
  }

  void* take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    std::vector<char*>& free = free_[std::bit_ceil(bytes)];
    if (free.empty()) {
      free.push_back(closed_ + used_);
      used_ += std::max(std::bit_ceil(bytes), kAlignment);
      TORCH_CHECK(used_ <= kBytes, "the device's memory has no room left to hand out");
    }
    char* const begin = free.back();
    free.pop_back();
    taken_[begin] = bytes;
    return begin;
  }
  void give_back(void* begin, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    taken_.erase(begin);
    free_[std::bit_ceil(bytes)].push_back(static_cast<char*>(begin));
  }
  HostDeviceContents contents() {
    const std::scoped_lock lock(mutex_);
    HostDeviceContents all;
    for (const auto& [begin, bytes] : taken_)
      all[begin] = std::string(static_cast<const char*>(opened(begin)), bytes);
    return all;
  }
  /// The address at which the device itself accesses a tensor at `closed`.
  void* opened(const void* closed) const {
    return open_ + (static_cast<const char*>(closed) - closed_);
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 36;  // only the used part takes memory
  static constexpr std::size_t kAlignment = 512;

  static char* map(int file, int access) {
    void* const begin = ::mmap(nullptr, kBytes, access, MAP_SHARED | MAP_NORESERVE, file, 0);
    TORCH_CHECK(begin != MAP_FAILED, "no room for the device's memory");
    return static_cast<char*>(begin);
  }

  char *closed_ = nullptr, *open_ = nullptr;
  std::mutex mutex_;
  std::size_t used_ = 0;
  std::map<void*, std::size_t> taken_;              ///< bytes, by their beginning
  std::map<std::size_t, std::vector<char*>> free_;  ///< by the power of two that fits into them
};

/// It outlives every tensor, even those of static objects.
Arena& arena() {
  static auto* const one = new Arena;
  return *one;
}

struct Block {
  void* begin = nullptr;
  std::size_t bytes = 0;
};

class HostDeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, kDevice};
    count(static_cast<std::int64_t>(bytes));
    auto block = std::make_unique<Block>(Block{arena().take(bytes), bytes});
    void* const begin = block->begin;
    return {begin, block.release(), &release, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(arena().opened(to), arena().opened(from), bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*data*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override {
    const std::scoped_lock lock(mutex_);
    return stats_;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {
    const std::scoped_lock lock(mutex_);
    for (auto* sums : {&stats_.allocated_bytes, &stats_.reserved_bytes}) (*sums)[kAll].reset_peak();
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex /*device*/) override {
    const std::scoped_lock lock(mutex_);
    const std::int64_t free = kHostDeviceBytes - stats_.allocated_bytes[kAll].current;
    return {static_cast<std::size_t>(free), static_cast<std::size_t>(kHostDeviceBytes)};
  }

 private:
  static constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

  static void release(void* context);

  void count(std::int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    const std::int64_t after = stats_.allocated_bytes[kAll].current + bytes;
    TORCH_CHECK_WITH(OutOfMemoryError, after <= kHostDeviceBytes, "the device has ",
                     kHostDeviceBytes, " bytes for tensors, of which ",
                     stats_.allocated_bytes[kAll].current, " are taken; ", bytes,
                     " more are asked for");
    stats_.allocation[kAll].increase(1);
    stats_.allocated_bytes[kAll].increase(static_cast<std::size_t>(bytes));
    stats_.reserved_bytes[kAll].increase(static_cast<std::size_t>(bytes));
    ++stats_.num_device_alloc;
  }
  void give_back(std::int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    stats_.allocation[kAll].decrease(1);
    stats_.allocated_bytes[kAll].decrease(static_cast<std::size_t>(bytes));
    stats_.reserved_bytes[kAll].decrease(static_cast<std::size_t>(bytes));
  }

  std::mutex mutex_;
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

HostDeviceAllocator& host_device_allocator() {
  static auto* const one = new HostDeviceAllocator;
  return *one;
}

void HostDeviceAllocator::release(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  if (block == nullptr) return;
  arena().give_back(block->begin, block->bytes);
  host_device_allocator().give_back(static_cast<std::int64_t>(block->bytes));
}

/// Host memory that counts as pinned.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = std::malloc(std::max<std::size_t>(bytes, 1));
    const std::scoped_lock lock(mutex_);
    pinned_.insert(data);
    return {data, data, &release, c10::DeviceType::CPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool has(const void* data) {
    const std::scoped_lock lock(mutex_);
    return pinned_.contains(data);
  }

 private:
  static void release(void* data);

  std::mutex mutex_;
  std::set<const void*> pinned_;
};

PinnedAllocator& pinned_allocator() {
  static auto* const one = new PinnedAllocator;
  return *one;
}

void PinnedAllocator::release(void* data) {
  PinnedAllocator& all = pinned_allocator();
  const std::scoped_lock lock(all.mutex_);
  all.pinned_.erase(data);
  std::free(data);
}

}  // namespace

c10::DeviceAllocator& memory_of_host_device() { return host_device_allocator(); }

void* opened(const void* closed) { return arena().opened(closed); }

HostDeviceContents contents_of_host_device() { return arena().contents(); }

void put_back_on_host_device(const HostDeviceContents& contents) {
  for (const auto& [begin, bytes] : contents)
    bytes.copy(static_cast<char*>(opened(begin)), bytes.size());
}

c10::Allocator& pinned_memory() { return pinned_allocator(); }

bool is_pinned_memory(const void* data) { return pinned_allocator().has(data); }

}  // namespace accrue::testing
