#pragma once

#include <bit>
#include <cstddef>

namespace accrue::memory {

/// Classes an eighth of a power of two apart: a block wastes at most an eighth of itself, and with
/// 8 classes per doubling, tensors of nearly equal size still share blocks.
inline constexpr std::size_t kClassesPerDoubling = 8;
/// Smaller blocks go to the system's allocator, which serves them from its own free lists.
inline constexpr std::size_t kSmallestCachedBytes = std::size_t{64} << 10;
inline constexpr std::size_t kPageBytes = 4096;
/// From this size on blocks are whole huge pages (of x86-64 and of arm64 with 4 KiB pages).
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// The class that holds `bytes` (>= kSmallestCachedBytes).
struct SizeClass {
  std::size_t capacity_bytes;
  std::size_t index;
};

inline SizeClass size_class_of(std::size_t bytes) {
  const auto doubling = static_cast<std::size_t>(std::bit_width(bytes) - 1);
  const std::size_t base = std::size_t{1} << doubling, step = base / kClassesPerDoubling;
  const std::size_t eighths = (bytes - base + step - 1) / step;
  return {base + eighths * step, doubling * kClassesPerDoubling + eighths};
}

/// One more than the largest index, for any request up to half of the address space.
inline constexpr std::size_t kSizeClasses = 64 * kClassesPerDoubling;

/// The bytes that become resident if the first `bytes` of a block are written: whole pages, and
/// whole huge pages as far as the block has room for them.
inline std::size_t touched_bytes(std::size_t bytes, std::size_t capacity_bytes) {
  const auto round_up = [bytes](std::size_t unit) { return (bytes + unit - 1) / unit * unit; };
  const std::size_t huge = round_up(kHugePageBytes);
  return huge <= capacity_bytes ? huge : round_up(kPageBytes);
}

}  // namespace accrue::memory
