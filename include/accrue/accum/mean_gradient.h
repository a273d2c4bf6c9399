#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/accum/sum_shard.h"

namespace accrue::accum {

/// What a window leaves: the gradient of the mean loss. Only Window::close() makes one, and an
/// optimizer consumes it, so clipping, decay and schedules cannot run in the middle of a window.
///
/// The buffer holds sums; `scale` (1 / total weight, and what clipping makes of it) is applied
/// if the gradient is used, so the division costs no pass over memory.
///
/// If the buffer folds into an optimizer's state, there are no values: this is only what that
/// optimizer's step consumes, and all that reads or writes the gradient is a usage Error.
///
/// If each rank holds a shard of the sums, norms are still those of the whole gradient, with the
/// same bits on all ranks (and with one process's bits if the sums have those and are staged),
/// but the first norm() or clip() is a collective. The optimizer has the same RankSlice as the
/// shard.
class MeanGradient {
 public:
  MeanGradient(MeanGradient&&) noexcept = default;
  MeanGradient& operator=(MeanGradient&&) noexcept = default;

  const GradientBuffer& buffer() const { return *buffer_; }
  /// Whether the gradient can be read, which it cannot where it was folded.
  bool has_values() const { return !buffer_->folds(); }
  double scale() const { return scale_; }
  double weight() const { return weight_; }
  /// Where the gradient of the buffer's entry `index` is to be read; times scale() it is the mean.
  GradientSource source(std::size_t index) const;
  /// Null if this rank has the whole gradient.
  const SumShard* shard() const { return shard_; }

  /// L2 norm of the mean gradient over all slots, in double. One pass, remembered.
  double norm();
  /// To be called after writing to the gradient: forgets the norm. While somebody shows the mean in
  /// `.grad` (accum/torch_step.h), what was written there counts, too: to a narrow parameter's
  /// copy, and by another tensor in its place. A `.grad` that was taken away counts as zero.
  void changed();
  /// Global-norm clipping (Pascanu, Mikolov, Bengio, arXiv:1211.5063): where norm() > max_norm,
  /// scales the gradient by max_norm / norm. Returns the norm before. max_norm > 0. After
  /// materialize() it writes to `.grad`, too, whose reader would not know of the scale.
  double clip(double max_norm);
  /// What clip() multiplied the gradient by; 1 if it left it as it was.
  double clipping() const { return clipping_; }
  /// Multiplies the gradient by `scale`, which becomes 1: for readers that know nothing of it, such
  /// as torch::optim or a user's hook, which find it in `.grad`. One pass, and none where scale()
  /// is 1. The gradient of a staged slot that was used is copied into a `.grad` of its own, in the
  /// parameter's dtype, where it is read from then on. A usage Error if this is a shard. Where
  /// somebody shows a narrow parameter's gradient in `.grad` (accum/torch_step.h), it is renewed.
  void materialize();

 private:
  friend class Window;
  friend class MeanInGrad;
  /// What was shown in `.grad`, by entry: the version of the sum that it shows, or none.
  using Shown = std::vector<std::optional<std::int64_t>>;
  MeanGradient(std::shared_ptr<GradientBuffer> buffer, double weight, const SumShard* shard);
  void require_values(const char* call) const;
  double raw_norm() const;
  double norm_by_aten() const;
  double sum_of_entries() const;
  void copy_staged();
  void renew_narrow();
  /// Makes `.grad` show the mean for as long as what it returns is kept.
  std::shared_ptr<Shown> show();
  void take_shown(std::size_t index, std::optional<std::int64_t> version_shown);

  std::shared_ptr<GradientBuffer> buffer_;
  const SumShard* shard_;
  std::vector<at::Tensor> copies_;  ///< by entry: staged slots' gradients, once materialized
  double weight_ = 0;
  double scale_ = 1;
  double clipping_ = 1;
  bool is_materialized_ = false;
  std::weak_ptr<Shown> shown_;
  std::optional<double> raw_norm_;
};

}  // namespace accrue::accum
