#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <map>
#include <string>

namespace accrue::testing {

inline const c10::Device kDevice{c10::DeviceType::HPU, 0};

/// It returns addresses that cannot be read or written (host_device.h).
c10::DeviceAllocator& memory_of_host_device();
/// The address at which the device's own copies access a tensor at `closed`.
void* opened(const void* closed);

/// The contents of tensors on the device, by their address in its memory.
using HostDeviceContents = std::map<void*, std::string>;
HostDeviceContents contents_of_host_device();
/// Restores them, even if tensors are gone.
void put_back_on_host_device(const HostDeviceContents& contents);

/// Host memory that counts as pinned.
c10::Allocator& pinned_memory();
bool is_pinned_memory(const void* data);

}  // namespace accrue::testing
