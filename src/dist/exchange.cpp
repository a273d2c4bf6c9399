#include "accrue/dist/exchange.h"

#include "accrue/dist/shard_layout.h"

namespace accrue::dist {

std::int64_t ordered_sum(const at::Tensor& values, Exchange& exchange) {
  const ShardLayout layout(values.numel(), exchange.world(), 1);
  const at::Tensor rows = values.new_zeros({layout.world(), layout.shard_elements()});
  rows.flatten().narrow(0, 0, values.numel()).copy_(values);
  const at::Tensor received = exchange.all_to_all(rows);
  const at::Tensor part = received[0].clone();
  for (std::int64_t rank = 1; rank < layout.world(); ++rank) part.add_(received[rank]);
  values.copy_(exchange.all_gather(part).flatten().narrow(0, 0, values.numel()));
  return 2 * (layout.world() - 1) * static_cast<std::int64_t>(part.nbytes());
}

}  // namespace accrue::dist
