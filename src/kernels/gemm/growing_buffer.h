#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace accrue::kernels::onednn {

/// Temporary memory of one thread, which grows.
class GrowingBuffer {
 public:
  /// At least `bytes` bytes, with any content.
  std::byte* of(std::size_t bytes) {
    if (bytes > bytes_) {
      buffer_.reset();
      bytes_ = 0;
      buffer_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
      bytes_ = bytes;
    }
    return buffer_.get();
  }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(std::byte* buffer) const { ::operator delete(buffer, alignment); }
  };

  std::unique_ptr<std::byte, Free> buffer_;
  std::size_t bytes_ = 0;
};

}  // namespace accrue::kernels::onednn
