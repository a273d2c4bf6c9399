#pragma once

#include <functional>
#include <future>

namespace accrue::train {

/// Writes beside training, one thing at a time. A checkpoint needs no copy for that: between two
/// optimizer steps nothing changes the parameters and the optimizer's state, so they are read in
/// place while the next window accumulates. Whoever is about to change them calls finish() first.
class CheckpointWriter {
 public:
  ~CheckpointWriter();  ///< waits; an error nobody asked for is lost
  CheckpointWriter() = default;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Runs `write` on another thread. Returns false if the system starts none, and `write` was run
  /// in place. To be called after finish().
  bool start(const std::function<void()>& write);
  /// Whether finish() has something to wait for, or to throw.
  bool is_busy() const { return writing_.valid(); }
  /// Waits until what was started is done. Throws what it threw, once.
  void finish();

 private:
  std::future<void> writing_;
};

}  // namespace accrue::train
