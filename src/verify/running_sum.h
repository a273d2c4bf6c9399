#pragma once

#include "verify/subject.h"

namespace accrue::proof {

/// Gradients added up in fp64, and what a bf16 sum of them may lose.
class RunningSum {
 public:
  void add(const Gradients& part);
  const Gradients& total() const { return total_; }
  /// u of bf16 times the norms of the sums so far (RoundingTerms::accumulation), relative to the
  /// total.
  double lost_in_bf16() const;

 private:
  Gradients total_;
  double norms_ = 0;
};

}  // namespace accrue::proof
