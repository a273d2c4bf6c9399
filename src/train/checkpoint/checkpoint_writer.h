#pragma once

#include <functional>
#include <future>

namespace accrue::train {

/// Writes during training, one checkpoint at a time. This needs no copy: between two optimizer
/// steps nothing changes the parameters and the optimizer's state, so they are read in place while
/// the next window accumulates. The code that changes them calls finish() first.
class CheckpointWriter {
 public:
  ~CheckpointWriter();  ///< waits; an error that finish() did not rethrow is lost
  CheckpointWriter() = default;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Runs `write` on another thread. If the system cannot start one, runs `write` on this thread
  /// and returns false. Call it after finish().
  bool start(const std::function<void()>& write);
  /// Whether finish() would wait or throw.
  bool is_busy() const { return writing_.valid(); }
  /// Waits until the started write is done. Rethrows its exception, once.
  void finish();

 private:
  std::future<void> writing_;
};

}  // namespace accrue::train
