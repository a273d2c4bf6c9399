#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/accum/sum_shard.h"

namespace accrue::accum {

/// The gradient of the mean loss over a window. Only Window::close() makes one, and an optimizer
/// consumes it, so clipping, decay and schedules cannot run in the middle of a window.
///
/// The buffer holds sums. `scale` (1 / total weight, times the factor of clipping) is applied when
/// the gradient is used, so the division costs no pass over memory.
///
/// If the buffer folds into an optimizer's state, there are no values: the object only entitles
/// that optimizer to step, and every call that reads or writes the gradient is a usage Error.
///
/// If each rank holds a shard of the sums, norms are still those of the whole gradient, with the
/// same bits on all ranks (and the bits of one process if the sums have those and are staged),
/// but the first norm() or clip() is a collective. The optimizer must have the RankSlice of the
/// shard.
class MeanGradient {
 public:
  MeanGradient(MeanGradient&&) noexcept = default;
  MeanGradient& operator=(MeanGradient&&) noexcept = default;

  const GradientBuffer& buffer() const { return *buffer_; }
  /// Whether the gradient can be read; it cannot if it was folded.
  bool has_values() const { return !buffer_->folds(); }
  double scale() const { return scale_; }
  double weight() const { return weight_; }
  /// The source of the gradient of buffer entry `index`; times scale() it is the mean gradient.
  GradientSource source(std::size_t index) const;
  /// Null if this rank has the whole gradient.
  const SumShard* shard() const { return shard_; }

  /// The L2 norm of the mean gradient over all slots, in double. One pass; cached.
  double norm();
  /// Call after writing to the gradient: clears the cached norm. While the mean is shown in `.grad`
  /// (accum/torch_step.h), writes there count, too: in the copy of a narrow parameter, or as
  /// another tensor in its place. A `.grad` that was removed counts as zero.
  void changed();
  /// Clips by the global norm (Pascanu, Mikolov, Bengio, arXiv:1211.5063): if norm() > max_norm,
  /// scales the gradient by max_norm / norm. Returns the norm before. max_norm must be > 0. After
  /// materialize() it also writes to `.grad`, whose readers do not know the scale.
  double clip(double max_norm);
  /// The factor by which clip() multiplied the gradient; 1 if it was not clipped.
  double clipping() const { return clipping_; }
  /// Multiplies the gradient by `scale`, which becomes 1: for code that reads `.grad`, such as
  /// torch::optim or a user's hook. One pass, or none if scale() is 1. The gradient of a staged
  /// slot that was used is copied into a separate `.grad` in the parameter's dtype, and is read
  /// from there afterwards. Throws a usage Error if this is a shard. If the gradient of a narrow
  /// parameter is shown in `.grad` (accum/torch_step.h), that copy is updated.
  void materialize();

 private:
  friend class Window;
  friend class MeanInGrad;
  /// By entry: the version of the sum that `.grad` shows, or none.
  using Shown = std::vector<std::optional<std::int64_t>>;
  MeanGradient(std::shared_ptr<GradientBuffer> buffer, double weight, const SumShard* shard);
  void require_values(const char* call) const;
  double raw_norm() const;
  double norm_by_operators() const;
  double sum_of_entries() const;
  void copy_staged();
  void renew_narrow();
  /// Shows the mean in `.grad` until the returned object is destroyed.
  std::shared_ptr<Shown> show();
  void take_shown(std::size_t index, std::optional<std::int64_t> version_shown);

  std::shared_ptr<GradientBuffer> buffer_;
  const SumShard* shard_;
  std::vector<at::Tensor> copies_;  ///< by entry: gradients of staged slots, once materialized
  double weight_ = 0;
  double scale_ = 1;
  double clipping_ = 1;
  bool is_materialized_ = false;
  std::weak_ptr<Shown> shown_;
  std::optional<double> raw_norm_;
};

}  // namespace accrue::accum
