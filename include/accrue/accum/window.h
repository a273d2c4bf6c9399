#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/core/ledger.h"
#include "accrue/core/loss.h"

namespace accrue::accum {

/// What a window leaves: the gradient of the mean loss. Only Window::close() makes one, and an
/// optimizer consumes it, so clipping, decay and schedules cannot run in the middle of a window.
///
/// The buffer holds sums; `scale` (1 / total weight, and what clipping makes of it) is applied where
/// the gradient is used, so the division costs no pass over memory.
class MeanGradient {
 public:
  MeanGradient(MeanGradient&&) noexcept = default;
  MeanGradient& operator=(MeanGradient&&) noexcept = default;

  const GradientBuffer& buffer() const { return *buffer_; }
  double scale() const { return scale_; }
  double weight() const { return weight_; }

  /// L2 norm of the mean gradient over all slots, in double. One pass, remembered.
  double norm();
  /// Global-norm clipping (Pascanu, Mikolov, Bengio, arXiv:1211.5063): where norm() > max_norm, scales the
  /// gradient by max_norm / norm. Returns the norm before. max_norm > 0.
  double clip(double max_norm);
  /// Multiplies the buffer by `scale`, which becomes 1: for readers that know nothing of it, such as
  /// torch::optim or a user's hook.
  void materialize();

 private:
  friend class Window;
  MeanGradient(std::shared_ptr<GradientBuffer> buffer, double weight);
  std::shared_ptr<GradientBuffer> buffer_;
  double weight_ = 0;
  double scale_ = 1;
  std::optional<double> raw_norm_;
};

/// One optimizer step's worth of micro-batches: a ledger of what went in, with the gradient buffer as
/// its cache.
///
///   window.open(index);
///   window.begin(micro); loss = forward(); backward(loss); window.commit(loss_sum, weight);   // repeat
///   optimizer.step(window.close());
///
/// Out of order, each call throws a usage Error that names the call expected.
class Window {
 public:
  explicit Window(std::shared_ptr<GradientBuffer> buffer);

  /// Opens window `index`: all slots are fresh.
  void open(std::int64_t index);
  bool is_open() const { return open_; }

  /// Starts a micro-batch: slots take gradients until `commit` or `abort`, `.grad` of parameters is bound
  /// to them. Throws a usage Error naming `zero_grad()` or `step()` where the gradients or the
  /// parameters were changed inside the window.
  void begin(MicroRef micro);
  /// Ends it. `weight` finite and >= 0, `loss_sum` finite, else a usage Error and the micro-batch is aborted.
  void commit(double loss_sum, double weight);
  /// Ends it without its contribution. Where nothing was added yet that is all; else the window is
  /// undone: with `replay` the committed micro-batches are run again into a fresh buffer, without one
  /// the whole window is lost (`close` then returns nothing).
  void abort(MicroStatus status, const std::string& reason);

  /// Runs one micro-batch again (forward and backward) and returns its loss.
  using Replay = std::function<Loss(const MicroRef&)>;
  void set_replay(Replay replay) { replay_ = std::move(replay); }

  /// Ends the window: slots still fresh become zero. Nothing where the total weight is 0 or the window was
  /// lost: no step is to be taken. The window may be opened again after it.
  std::optional<MeanGradient> close();

  /// Drops the open window and everything in it.
  void discard();

  LedgerView ledger() const;
  double weight() const;
  const std::shared_ptr<GradientBuffer>& buffer() const { return buffer_; }

 private:
  std::shared_ptr<GradientBuffer> buffer_;
  std::vector<LedgerEntry> entries_;
  Replay replay_;
  std::int64_t index_ = 0;
  bool open_ = false;
  bool in_micro_batch_ = false;
  bool lost_ = false;
};

}  // namespace accrue::accum
