#include "verify/running_sum.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "verify/comparison.h"

namespace accrue::proof {

void RunningSum::add(const Gradients& part) {
  add_to(total_, part);
  norms_ += l2_norm(total_.sums);
}

double RunningSum::lost_in_bf16() const {
  return unit_roundoff(at::kBFloat16) * norms_ / std::max(l2_norm(total_.sums), 1e-300);
}

}  // namespace accrue::proof
