#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <mutex>
#include <optional>

#include "accrue/memory/caching_allocator.h"

namespace accrue::memory {

/// The memory of one device as libtorch's allocator for it counts it.
class DeviceMemory {
 public:
  explicit DeviceMemory(c10::Device device) : device_(device) {}

  c10::Device device() const { return device_; }
  Usage usage() const;
  void release_cached();
  DeviceRoom room() const;

  void set_budget(std::optional<std::int64_t> bytes);
  std::optional<std::int64_t> budget() const { return budget_; }

  /// As those of Level (memory/counters.h): libtorch's own peak can only begin anew, so the most
  /// that was before is kept here.
  Peak peak() const;
  Peak restart_peak();
  void raise_peak(const Peak& peak);

 private:
  Peak libtorch_peak() const;

  c10::Device device_;
  mutable std::mutex mutex_;
  Peak kept_;
  std::optional<std::int64_t> budget_;
  bool limited_ = false;
};

/// The device that is counted; null: host memory is.
DeviceMemory* counted_device();

}  // namespace accrue::memory
