#pragma once

#include <c10/core/CPUAllocator.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace accrue::data {

/// Takes memory from libtorch's CPU allocator, so that a memory budget counts it and can refuse it:
/// allocate() throws c10's OutOfMemoryError then.
template <class T>
struct CountedAllocator {
  using value_type = T;
  CountedAllocator() = default;
  template <class U>
  // The standard requires one that is not explicit.
  CountedAllocator(const CountedAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) {
    return static_cast<T*>(c10::GetCPUAllocator()->raw_allocate(count * sizeof(T)));
  }
  void deallocate(T* data, std::size_t) { c10::GetCPUAllocator()->raw_deallocate(data); }
  bool operator==(const CountedAllocator&) const = default;
};

/// The pixels of an image, or the bytes of its file: too much for a budget to ignore.
using CountedBytes = std::vector<std::uint8_t, CountedAllocator<std::uint8_t>>;

/// Resizes `bytes`. Its content is lost, and its memory is freed before more is
/// allocated.
inline void resize_without_copy(CountedBytes& bytes, std::size_t size) {
  if (size > bytes.capacity()) bytes = CountedBytes();
  bytes.resize(size);
}

}  // namespace accrue::data
