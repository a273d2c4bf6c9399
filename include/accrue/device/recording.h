#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>

namespace accrue::device {

class Recorder;  // device/recorder.h

/// Throws a usage Error, with the reason, where work on `device` cannot be recorded. It can on a
/// GPU of NVIDIA's where libaccrue_graphs.so lies beside the program or in ../lib/accrue of its
/// folder (CUDA graphs), on other devices where libtorch has an implementation of
/// at::accelerator::Graph for them.
void expect_recordable(c10::Device device);
bool can_record(c10::Device device);

/// A stream for recordings, of `device`. Libtorch keeps memory for each stream that work ran on: it
/// is to be one for all recordings that somebody makes.
c10::Stream new_stream(c10::Device device);

/// Work of a device that was asked for once and is done again with one launch.
class Recording {
 public:
  /// Calls `work`, and records what it and its backward passes ask of the device, on `stream`,
  /// instead of doing it. What was there before keeps its memory as long as the caller keeps it.
  /// What `work` makes has memory that belongs to the recording, and is shared with
  /// `shares_memory_of`: what one of them made is lost when the other is repeated. First waits for
  /// the device, and gives back what libtorch's allocator keeps there.
  ///
  /// If `work` throws, or there is no memory to repeat it, the device did nothing, and the
  /// exception goes on; what `work` did on the host is its caller's to undo. Throws a runtime Error
  /// if the recording itself is spoilt, as by a wait for the device: libtorch's allocators may
  /// not recover from that.
  Recording(c10::Stream stream, const std::function<void()>& work,
            const Recording* shares_memory_of = nullptr);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Has the device do it on this thread's current stream, in order with what was asked of it
  /// before.
  void repeat();

 private:
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace accrue::device
