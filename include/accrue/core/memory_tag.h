#pragma once

#include <cstddef>
#include <cstdint>

namespace accrue {

/// What memory is used for. A metering allocator counts each block under the tag of the thread that
/// allocated it.
enum class MemoryTag : std::uint8_t {
  working,     ///< activations, temporaries, data: all that is in no MemoryTagScope
  parameters,  ///< masters and their low-precision copies, buffers
  packed,      ///< weights in the layouts that products read
  gradients,   ///< main gradients and what sums them
  optimizer,   ///< an optimizer's state
};
inline constexpr std::size_t kMemoryTags = 5;

/// The calling thread's tag.
MemoryTag memory_tag();

/// While it lives, allocations of the calling thread have this tag.
class MemoryTagScope {
 public:
  explicit MemoryTagScope(MemoryTag tag);
  ~MemoryTagScope();
  MemoryTagScope(const MemoryTagScope&) = delete;
  MemoryTagScope& operator=(const MemoryTagScope&) = delete;

 private:
  MemoryTag before_;
};

}  // namespace accrue
