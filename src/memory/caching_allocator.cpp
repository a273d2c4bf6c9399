#include "accrue/memory/caching_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "accrue/core/units.h"
#include "size_class.h"
#include "system_blocks.h"

namespace accrue::memory {
namespace {

constexpr std::size_t kPageBytes = 4096;

/// Counters that any thread moves without a lock.
class Counters {
 public:
  void add_live(std::size_t bytes) {
    const std::int64_t now = live_ += static_cast<std::int64_t>(bytes);
    std::int64_t seen = peak_;
    while (now > seen && !peak_.compare_exchange_weak(seen, now)) {
    }
  }
  void remove_live(std::size_t bytes) { live_ -= static_cast<std::int64_t>(bytes); }
  void add_reserved(std::size_t bytes) {
    reserved_ += static_cast<std::int64_t>(bytes);
    ++system_calls_;
  }
  void remove_reserved(std::size_t bytes) { reserved_ -= static_cast<std::int64_t>(bytes); }
  void reset_peak() { peak_ = live_.load(); }
  Usage usage() const { return {live_, peak_, reserved_, system_calls_}; }

 private:
  std::atomic<std::int64_t> live_{0}, peak_{0}, reserved_{0}, system_calls_{0};
};

/// Blocks that go to the system's allocator each time. Their size stands in a header of one cache
/// line before the data, with a mark that no other allocator's block carries there.
class SmallBlocks {
 public:
  explicit SmallBlocks(Counters& counters) : counters_(counters) {}

  void* take(std::size_t bytes) {
    void* raw = nullptr;
    if (posix_memalign(&raw, c10::gAlignment, bytes + sizeof(Header)) != 0) return nullptr;
    auto* const header = new (raw) Header;
    void* const data = header + 1;
    header->mark = mark_of(data);
    header->bytes = bytes;
    counters_.add_reserved(bytes + sizeof(Header));
    return data;
  }

  /// Reads the line before `data`. For a block of the system's allocator that line is mapped, as
  /// its own bookkeeping is there; an address sanitizer guards it all the same.
  [[gnu::no_sanitize_address]] static bool owns(void* data) {
    return header_of(data)->mark == mark_of(data);
  }

  std::size_t give_back(void* data) {
    Header* const header = header_of(data);
    const std::size_t bytes = header->bytes;
    header->mark = 0;
    counters_.remove_reserved(bytes + sizeof(Header));
    std::free(header);
    return bytes;
  }

 private:
  struct alignas(c10::gAlignment) Header {
    std::uintptr_t mark = 0;
    std::size_t bytes = 0;
  };
  static Header* header_of(void* data) { return static_cast<Header*>(data) - 1; }
  /// Depends on the address, so that a copy of a header elsewhere is no header.
  static std::uintptr_t mark_of(void* data) {
    constexpr std::uintptr_t kSecret = 0x61636372'75650d5fU;
    return reinterpret_cast<std::uintptr_t>(data) ^ kSecret;
  }

  Counters& counters_;
};

/// Blocks that stay reserved after use, in one free list for each size class.
class CachedBlocks {
 public:
  explicit CachedBlocks(Counters& counters) : counters_(counters) {}

  /// Null where the system has no more, even after the free lists went back to it.
  void* take(std::size_t bytes) {
    const SizeClass size_class = size_class_of(bytes);
    const std::lock_guard lock(mutex_);
    void* block = reuse(size_class);
    if (block == nullptr) block = reserve(size_class);
    if (block == nullptr) return nullptr;
    in_use_.emplace(block, Block{bytes, size_class});
    in_use_bytes_ += size_class.capacity_bytes;
    most_in_use_bytes_ = std::max(most_in_use_bytes_, in_use_bytes_);
    return block;
  }

  /// The bytes that the block was taken for; nothing where it is none of ours.
  std::optional<std::size_t> give_back(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = in_use_.find(data);
    if (found == in_use_.end()) return std::nullopt;
    const Block block = found->second;
    in_use_.erase(found);
    in_use_bytes_ -= block.size_class.capacity_bytes;
    free_[block.size_class.index].push_back({data, block.size_class.capacity_bytes});
    free_bytes_ += block.size_class.capacity_bytes;
    return block.bytes;
  }

  void release_free() {
    const std::lock_guard lock(mutex_);
    release_locked();
  }

 private:
  struct Block {
    std::size_t bytes;
    SizeClass size_class;
  };
  struct FreeBlock {
    void* data;
    std::size_t capacity_bytes;
  };

  void* reuse(const SizeClass& size_class) {
    auto& list = free_[size_class.index];
    if (list.empty()) return nullptr;
    void* const block = list.back().data;
    list.pop_back();
    free_bytes_ -= size_class.capacity_bytes;
    return block;
  }

  void* reserve(const SizeClass& size_class) {
    if (wastes_too_much(size_class.capacity_bytes)) release_locked();
    void* block = take_from_system(size_class.capacity_bytes);
    if (block == nullptr) {
      release_locked();
      block = take_from_system(size_class.capacity_bytes);
    }
    if (block != nullptr) counters_.add_reserved(size_class.capacity_bytes);
    return block;
  }

  /// Sequences of ever new lengths would leave a free list for each: what is reserved stays within
  /// one and a half times the most that was ever in use. Equal micro-batches never come near.
  bool wastes_too_much(std::size_t more_bytes) const {
    const std::size_t needed = std::max(most_in_use_bytes_, in_use_bytes_ + more_bytes);
    return in_use_bytes_ + free_bytes_ + more_bytes > needed + needed / 2;
  }

  void release_locked() {
    for (auto& list : free_) {
      for (const FreeBlock& block : list) {
        return_to_system(block.data, block.capacity_bytes);
        counters_.remove_reserved(block.capacity_bytes);
      }
      list.clear();
    }
    free_bytes_ = 0;
  }

  Counters& counters_;
  std::mutex mutex_;
  std::array<std::vector<FreeBlock>, kSizeClasses> free_;
  std::unordered_map<void*, Block> in_use_;
  std::size_t in_use_bytes_ = 0, most_in_use_bytes_ = 0, free_bytes_ = 0;
};

class CachingAllocator final : public c10::Allocator {
 public:
  /// Null until installed. Never destroyed: tensors in static variables free their memory after
  /// every destructor of ours would have run.
  static std::atomic<CachingAllocator*>& installed() {
    static std::atomic<CachingAllocator*> allocator{nullptr};
    return allocator;
  }

  explicit CachingAllocator(c10::Allocator* previous) : previous_(previous) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = bytes == 0 ? nullptr : take(bytes);
    return {data, data, &CachingAllocator::deallocate, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &CachingAllocator::deallocate; }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

  void release_cached() { cached_.release_free(); }
  void reset_peak() { counters_.reset_peak(); }
  Usage usage() const { return counters_.usage(); }

 private:
  void* take(std::size_t bytes) {
    void* data = nullptr;
    if (bytes < kSmallestCachedBytes) {
      data = small_.take(bytes);
      if (data == nullptr) {
        release_cached();
        data = small_.take(bytes);
      }
    } else if (bytes <= kLargestRequestBytes) {
      data = cached_.take(bytes);
    }
    if (data == nullptr) throw_out_of_memory(bytes);
    counters_.add_live(bytes);
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return data;
  }

  static void deallocate(void* data) {
    if (data != nullptr) installed().load()->give_back(data);
  }

  void give_back(void* data) {
    if (const auto bytes = own_bytes_given_back(data)) {
      counters_.remove_live(*bytes);
      c10::profiledCPUMemoryReporter().Delete(data);
    } else {
      // Taken through raw_allocate() before the installation: a tensor would carry its own deleter.
      previous_->raw_deleter()(data);
    }
  }

  std::optional<std::size_t> own_bytes_given_back(void* data) {
    if (reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0)
      if (const auto bytes = cached_.give_back(data)) return bytes;
    if (SmallBlocks::owns(data)) return small_.give_back(data);
    return std::nullopt;
  }

  [[noreturn]] void throw_out_of_memory(std::size_t bytes) const {
    c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
    const Usage now = counters_.usage();
    const auto requested = static_cast<std::int64_t>(std::min(bytes, kLargestRequestBytes));
    TORCH_CHECK_WITH(OutOfMemoryError, false, "allocate a CPU tensor: expected memory for ", bytes,
                     " bytes (", format_bytes(requested), "), received none from the system with ",
                     format_bytes(now.live), " in tensors and ", format_bytes(now.reserved),
                     " reserved; try a smaller micro-batch");
    std::abort();  // not reached: the check always throws
  }

  static constexpr std::size_t kLargestRequestBytes =
      static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max() / 2);

  c10::Allocator* previous_;
  Counters counters_;
  SmallBlocks small_{counters_};
  CachedBlocks cached_{counters_};
};

}  // namespace

void install_caching_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto* const allocator = new CachingAllocator(c10::GetCPUAllocator());
    CachingAllocator::installed() = allocator;
    c10::SetCPUAllocator(allocator);
  });
}

bool caching_allocator_installed() { return CachingAllocator::installed() != nullptr; }

Usage usage() {
  const CachingAllocator* const allocator = CachingAllocator::installed();
  return allocator == nullptr ? Usage{} : allocator->usage();
}

void reset_peak() {
  if (CachingAllocator* const allocator = CachingAllocator::installed()) allocator->reset_peak();
}

void release_cached() {
  if (CachingAllocator* const allocator = CachingAllocator::installed())
    allocator->release_cached();
}

}  // namespace accrue::memory
