#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <mutex>
#include <optional>

#include "accrue/memory/caching_allocator.h"
#include "memory/counted_memory.h"

namespace accrue::memory {

/// The memory of one device as counted by libtorch's allocator for it.
class DeviceMemory final : public CountedMemory {
 public:
  explicit DeviceMemory(c10::Device device) : device_(device) {}

  c10::Device device() const { return device_; }
  void release_cached();
  DeviceRoom room() const;

  Usage usage() const override;
  void set_budget(std::optional<std::int64_t> bytes) override;
  std::optional<std::int64_t> budget() override { return budget_; }
  /// Does nothing: all of a device's budget is for tensors.
  void leave_outside(std::int64_t) override {}
  std::int64_t resident_in_tensors() override { return usage().reserved; }
  /// libtorch does not report the number of bytes.
  std::optional<std::int64_t> last_refusing_budget() const override { return budget_; }

  /// libtorch's own peak can only be restarted, so the earlier maximum is kept here.
  Peak peak() const override;
  Peak restart_peak() override;
  void raise_peak(const Peak& peak) override;

 private:
  Peak libtorch_peak() const;

  c10::Device device_;
  mutable std::mutex mutex_;
  Peak kept_;
  std::optional<std::int64_t> budget_;
  bool limited_ = false;
};

/// The device that is counted; null: host memory.
DeviceMemory* counted_device();

}  // namespace accrue::memory
