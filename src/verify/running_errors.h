#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/core/rank_slice.h"

namespace accrue::proof {

/// u of a sum in a 16-bit format: the largest relative rounding, up or down.
double roundoff_of(accum::Accumulation accumulation);

/// A copy of the sum in a slot, zero without contributions.
at::Tensor sum_of(const accum::GradientBuffer::Entry& entry);

/// Those elements of it, one-dimensional; it may share memory with the slot.
at::Tensor part_of_sum(const accum::GradientBuffer::Entry& entry, const ElementRange& part);

/// Bounds the errors of a window's sums during accumulation, from the sums themselves.
class RunningErrors {
 public:
  explicit RunningErrors(const accum::GradientBuffer& buffer) : RunningErrors(buffer, {}, {}) {}
  /// Of sums of which a rank has its part alone, where `divided` is set, by entry.
  RunningErrors(const accum::GradientBuffer& buffer, std::vector<bool> divided, RankSlice slice);
  /// Call after every micro-batch, while the window is open. If contributions interleave, call once
  /// for `micro_batches` of them: the last sum stands for each before it.
  void added(std::int64_t micro_batches = 1);
  /// Exponents of 2 of fixed-point sums in this window; empty for other sums.
  const std::vector<int>& units() const { return units_; }
  /// The first parameter whose sum was not finite; empty if all were.
  const std::string& not_finite() const { return not_finite_; }
  /// Per parameter, L2 (docs/numerics.md, "Accumulation precisions"). For a bf16 sum the error of
  /// an fp32 one: its own worst case would accept a sum that stalls.
  std::vector<double> bounds() const;

 private:
  at::Tensor present_sum(std::size_t entry) const;

  const accum::GradientBuffer& buffer_;
  std::vector<bool> divided_;  ///< by entry; empty: none
  RankSlice slice_;
  std::vector<double> norms_, squares_;  ///< of the sums so far, added over micro-batches
  double count_ = 0;
  std::vector<int> units_;
  std::string not_finite_;
};

}  // namespace accrue::proof
