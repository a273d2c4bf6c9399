#include "accrue/dist/group.h"

namespace accrue::dist {

at::Tensor Group::reduce_scatter(const at::Tensor& rows) {
  const at::Tensor parts = all_to_all(rows);
  at::Tensor sum = parts[0].clone();
  for (std::int64_t rank = 1; rank < world(); ++rank) sum.add_(parts[rank]);
  return sum;
}

}  // namespace accrue::dist
