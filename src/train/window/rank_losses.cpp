#include "train/window/rank_losses.h"

#include <ATen/ATen.h>

namespace accrue::train {

std::vector<double> add_up_over_ranks(distributed::DeferredReduce& reduce,
                                      const std::vector<double>& mine) {
  if (mine.empty()) return {};
  const at::Tensor sums = at::tensor(mine, at::kDouble);
  reduce.add_up(sums);
  const double* first = sums.const_data_ptr<double>();
  return {first, first + sums.numel()};
}

}  // namespace accrue::train
