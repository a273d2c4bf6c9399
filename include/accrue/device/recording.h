#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace accrue::device {

/// Whether work on `device` can be recorded: libtorch has the interface for it since 2.13
/// (at::accelerator::Graph), and an implementation for this type of devices (of CUDA's, its
/// graphs).
bool can_record(c10::Device device);

/// Has all work that this thread asks of `device` from now on go to a stream of its own, which a
/// recording needs; what was asked before is waited for. Threads that run backward passes follow
/// the thread of the forward pass.
void use_own_stream(c10::Device device);

/// Work of a device that was asked for once and is done again with one launch.
class Recording {
 public:
  /// Calls `work`, and records what it asks of the device, on this thread's current stream
  /// (use_own_stream()) and in its backward passes, instead of doing it. Tensors that exist keep
  /// their memory as long as the caller keeps them; what `work` makes has memory that belongs to
  /// the recording, and `shares_memory_of` the same as another one, with which it is never needed
  /// at once. Where `work` throws, nothing was done, and the exception goes on. Throws c10::Error
  /// where the host would have to wait for the device.
  Recording(c10::Device device, const std::function<void()>& work,
            const Recording* shares_memory_of = nullptr);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Has the device do it, in order with what was asked of it before.
  void repeat();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accrue::device
