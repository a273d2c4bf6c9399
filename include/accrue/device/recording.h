#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>

namespace accrue::device {

class Recorder;  // device/recorder.h

/// Throws a usage Error, with the reason, if work on `device` cannot be recorded. Recording
/// needs an NVIDIA GPU with libaccrue_graphs.so next to the program or in the folder
/// ../lib/accrue (CUDA graphs), or another device for which libtorch implements
/// at::accelerator::Graph.
void expect_recordable(c10::Device device);
bool can_record(c10::Device device);

/// A stream of `device` for recordings. Libtorch keeps memory for each stream that work ran on: use
/// one stream for all recordings.
c10::Stream new_stream(c10::Device device);

/// Work on a device that was recorded once and is repeated with one launch.
class Recording {
 public:
  /// Calls `work`, and records the operations that it and its backward passes submit to the device,
  /// on `stream`, without running them. Memory that existed before must be kept alive by the
  /// caller. Results of `work` lie in memory of the recording, shared with `shares_memory_of`:
  /// repeating one of the two overwrites the results of the other. It first waits for the device,
  /// and releases the cached memory of libtorch's allocator for it.
  ///
  /// If `work` throws, or memory for the repetition is missing, the device ran nothing and the
  /// exception is rethrown; the caller must undo effects of `work` on the host. Throws a runtime
  /// Error if the recording is invalidated, for example by a wait for the device; libtorch's
  /// allocators may not recover from that.
  Recording(c10::Stream stream, const std::function<void()>& work,
            const Recording* shares_memory_of = nullptr);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Runs the recorded work on this thread's current stream, in order with work submitted
  /// before.
  void repeat();

 private:
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace accrue::device
