#pragma once

#include <memory>

namespace accrue::device {

/// Records work for one type of devices; Recording defines the order of calls.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// Begins on this thread's current stream, which is not the device's default one.
  /// `shares_memory_of` is null, or a finished one of the same type.
  virtual void begin(const Recorder* shares_memory_of) = 0;
  virtual void end() = 0;
  /// Prepares the recorded work for repetition, which takes memory of the device.
  virtual void prepare() = 0;
  virtual void repeat() = 0;
};

/// CUDA's is the only function of the library libaccrue_graphs.so. The library is loaded, not
/// linked, because it needs libtorch's library for CUDA, which machines without a GPU do not load.
using MakeRecorder = void (*)(std::unique_ptr<Recorder>& made);

inline constexpr const char* kGraphsLibrary = "libaccrue_graphs.so";
inline constexpr const char* kMakeCudaRecorder = "accrue_make_cuda_recorder";

}  // namespace accrue::device
