#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <map>
#include <string>

namespace accrue::testing {

inline const c10::Device kDevice{c10::DeviceType::HPU, 0};

/// It hands out places that nobody may read or write (host_device.h).
c10::DeviceAllocator& memory_of_host_device();
/// Where the device's own copies find what a tensor has at `closed`.
void* opened(const void* closed);

/// What tensors on the device hold, by their place in its memory.
using HostDeviceContents = std::map<void*, std::string>;
HostDeviceContents contents_of_host_device();
/// Puts it back, also if tensors are gone.
void put_back_on_host_device(const HostDeviceContents& contents);

/// Host memory that is known to be pinned.
c10::Allocator& pinned_memory();
bool is_pinned_memory(const void* data);

}  // namespace accrue::testing
