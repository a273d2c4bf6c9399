#include "memory/device_memory.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "accrue/core/error.h"

namespace accrue::memory {
namespace {

// One per process, like the allocators that it reads. It lives as long as they do.
std::atomic<DeviceMemory*> counted{nullptr};

constexpr auto all_pools = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

std::int64_t most(std::int64_t a, std::int64_t b) { return std::max(a, b); }

}  // namespace

Usage DeviceMemory::usage() const {
  const auto stats = c10::getDeviceAllocator(device_.type())->getDeviceStats(device_.index());
  Usage now{.live = stats.allocated_bytes[all_pools].current,
            .reserved = stats.reserved_bytes[all_pools].current,
            .system_calls = stats.num_device_alloc,
            .allocations = stats.allocation[all_pools].allocated};
  now.live_by_tag[static_cast<std::size_t>(MemoryTag::working)] = now.live;
  return now;
}

void DeviceMemory::release_cached() { c10::getDeviceAllocator(device_.type())->emptyCache(); }

DeviceRoom DeviceMemory::room() const {
  const auto [free, all] = c10::getDeviceAllocator(device_.type())->getMemoryInfo(device_.index());
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(all)};
}

/// libtorch reads its limit, a fraction of the total, when the device's first tensor is made.
void DeviceMemory::set_budget(std::optional<std::int64_t> bytes) {
  if (bytes && !device_.is_cuda())
    throw usage_error("memory.budget with a model on " + device_.str(),
                      "a device whose allocator takes a limit, which is a GPU of CUDA's", "another",
                      "budget = \"none\"");
  budget_ = bytes;
  if (!bytes || limited_) return;
  const double part = static_cast<double>(*bytes) / static_cast<double>(room().all);
  c10::CachingAllocator::setAllocatorSettings("per_process_memory_fraction:" +
                                              std::to_string(std::min(part, 1.0)));
  limited_ = true;
}

Peak DeviceMemory::libtorch_peak() const {
  const auto stats = c10::getDeviceAllocator(device_.type())->getDeviceStats(device_.index());
  return {stats.allocated_bytes[all_pools].peak, stats.reserved_bytes[all_pools].peak};
}

Peak DeviceMemory::peak() const {
  const std::scoped_lock lock(mutex_);
  const Peak now = libtorch_peak();
  return {most(kept_.live, now.live), most(kept_.reserved, now.reserved)};
}

Peak DeviceMemory::restart_peak() {
  const Peak before = peak();
  const std::scoped_lock lock(mutex_);
  kept_ = {};
  c10::getDeviceAllocator(device_.type())->resetPeakStats(device_.index());
  return before;
}

void DeviceMemory::raise_peak(const Peak& peak) {
  const std::scoped_lock lock(mutex_);
  kept_ = {most(kept_.live, peak.live), most(kept_.reserved, peak.reserved)};
}

DeviceMemory* counted_device() { return counted; }

void count_device(c10::Device device) {
  DeviceMemory* const before = counted;
  if (before != nullptr && before->device() == device) return;
  counted = device.is_cpu() ? nullptr : new DeviceMemory(device);
}

bool counts_allocations() { return counted_device() != nullptr || caching_allocator_installed(); }

std::optional<DeviceRoom> device_room() {
  const DeviceMemory* const device = counted_device();
  if (device == nullptr) return std::nullopt;
  return device->room();
}

}  // namespace accrue::memory
