#pragma once

#include <cstdint>

namespace accrue::testing {

/// A second device of torch, for machines without a GPU: its tensors are not the CPU's, so the work
/// takes the path of a GPU. It has the name of one that libtorch here does not support.
///
/// Its memory is the host's, and closed to the host: code that reads or writes a tensor's bytes
/// there, other than by the device's own copies, gets a segmentation fault. Its operations are the
/// CPU's, on copies. It has an allocator with statistics, pinned memory, and one stream. It is a
/// library with which a program is linked, or which LD_PRELOAD loads;
/// ACCRUE_HOST_DEVICE_WITHOUT=NAME leaves out an operation of ATen's ("addmm.out").
inline constexpr const char* kHostDevice = "hpu";

/// Bytes for tensors on it; more throws c10::OutOfMemoryError, as GPUs do.
inline constexpr std::int64_t kHostDeviceBytes = std::int64_t{1} << 30;

/// How often the host has waited for the device: copies to host memory, and operations whose result
/// the host reads.
std::int64_t waits_for_host_device();

/// How many copies came from memory that is not pinned, which make the host wait for a GPU.
std::int64_t pageable_copies_to_host_device();

}  // namespace accrue::testing
