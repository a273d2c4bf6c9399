#pragma once

#include <cstdint>

namespace accrue::testing {

/// A second device of torch's, for machines without a GPU: what runs on it goes the way of a GPU,
/// since its tensors are not the CPU's. It has the name of one for which libtorch here has no part.
///
/// Its memory is the host's, and closed to the host: whoever reads or writes a tensor's bytes
/// there, past the device's own copies, gets a segmentation fault. Its operations are the CPU's, on
/// copies. It has an allocator with statistics, pinned memory, and one stream. It is a library that
/// a program is linked with, or that LD_PRELOAD brings; ACCRUE_HOST_DEVICE_WITHOUT=NAME leaves out
/// an operation of ATen's ("addmm.out").
inline constexpr const char* kHostDevice = "hpu";

/// Bytes that tensors on it may take; more throws c10::OutOfMemoryError, as GPUs do.
inline constexpr std::int64_t kHostDeviceBytes = std::int64_t{1} << 30;

/// How often the host has waited for the device: copies to host memory, and operations whose result
/// the host reads.
std::int64_t waits_for_host_device();

/// How many copies came from memory that is not pinned, for which a GPU would be waited for.
std::int64_t pageable_copies_to_host_device();

}  // namespace accrue::testing
