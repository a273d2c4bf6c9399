#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/accum/gradient_buffer.h"

namespace accrue::proof {

/// u of a sum in a format of 16 bits: how far it may be rounded, up or down.
double roundoff_of(accum::Accumulation accumulation);

/// A copy of the sum in a slot, zero if nothing was added.
at::Tensor sum_of(const accum::GradientBuffer::Entry& entry);

/// Bounds what a window's sums lose while they are added up, from the sums themselves.
class RunningErrors {
 public:
  explicit RunningErrors(const accum::GradientBuffer& buffer);
  /// To be called after every micro-batch, while the window is open. If contributions
  /// interleave, once for `micro_batches` of them: the last sum stands for each before it.
  void added(std::int64_t micro_batches = 1);
  /// Exponents of 2 of fixed-point sums in this window; empty if sums are of another kind.
  const std::vector<int>& units() const { return units_; }
  /// The first parameter whose sum was not finite then; empty if all were.
  const std::string& not_finite() const { return not_finite_; }
  /// Per parameter, L2 (docs/numerics.md, "Accumulation precisions"). Of a bf16 sum what an fp32
  /// one may lose: its own worst case would pass one that stalls.
  std::vector<double> bounds() const;

 private:
  const accum::GradientBuffer& buffer_;
  std::vector<double> norms_, squares_;  ///< of the sums so far, added over micro-batches
  double count_ = 0;
  std::vector<int> units_;
  std::string not_finite_;
};

}  // namespace accrue::proof
