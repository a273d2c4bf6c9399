#pragma once

#include <cstdint>
#include <memory>

namespace accrue::memory {

/// Counts the CPU tensor bytes that the calling thread (and the backward passes it starts)
/// allocates and frees during its lifetime, through libtorch's own reporting, whichever allocator
/// is installed. Meters must not be nested.
class ThreadMeter {
 public:
  ThreadMeter();
  ~ThreadMeter();
  ThreadMeter(const ThreadMeter&) = delete;
  ThreadMeter& operator=(const ThreadMeter&) = delete;

  std::int64_t live() const;  ///< bytes allocated less bytes freed since construction
  std::int64_t peak() const;  ///< the most `live` was; >= 0

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::memory
