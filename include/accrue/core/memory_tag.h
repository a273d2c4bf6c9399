#pragma once

#include <cstddef>
#include <cstdint>

namespace accrue {

/// The use of memory. An allocator that counts adds each block to the tag of the thread that
/// allocated it.
enum class MemoryTag : std::uint8_t {
  working,     ///< activations, temporaries, data: everything outside a MemoryTagScope
  parameters,  ///< master weights and their low-precision copies, buffers
  packed,      ///< weights in the layouts that matrix products read
  gradients,   ///< main gradients and the buffers that sum them
  optimizer,   ///< the state of an optimizer
};
inline constexpr std::size_t kMemoryTags = 5;

/// The tag of the calling thread.
MemoryTag memory_tag();

/// Gives allocations of the calling thread this tag during the object's lifetime.
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
