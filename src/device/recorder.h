#pragma once

#include <memory>

namespace accrue::device {

/// What records work for one type of devices; Recording says in which order it is asked.
class Recorder {
 public:
  virtual ~Recorder() = default;
  /// Begins on this thread's current stream, which is not the device's default one.
  /// `shares_memory_of` is null, or one of the same type that has ended.
  virtual void begin(const Recorder* shares_memory_of) = 0;
  virtual void end() = 0;
  /// Makes what was recorded ready to be repeated, for which the device takes memory.
  virtual void prepare() = 0;
  virtual void repeat() = 0;
};

/// CUDA's is the one function of the library libaccrue_graphs.so. It is loaded, not linked, because
/// it needs libtorch's part for CUDA, which machines without a GPU do not load.
using MakeRecorder = void (*)(std::unique_ptr<Recorder>& made);

inline constexpr const char* kGraphsLibrary = "libaccrue_graphs.so";
inline constexpr const char* kMakeCudaRecorder = "accrue_make_cuda_recorder";

}  // namespace accrue::device
