#include "accrue/distributed/exchange.h"

#include "distributed/compress/compression_shards.h"

namespace accrue::distributed {

at::Tensor add_in_order(const at::Tensor& rows) {
  at::Tensor sum = rows[0];
  for (std::int64_t row = 1; row < rows.size(0); ++row) sum.add_(rows[row]);
  return sum;
}

std::int64_t ordered_sum(const at::Tensor& values, Exchange& exchange) {
  const CompressionShards layout(values.numel(), exchange.world(), 1);
  const at::Tensor rows = values.new_zeros({layout.world(), layout.shard_elements()});
  rows.flatten().narrow(0, 0, values.numel()).copy_(values);
  const at::Tensor part = add_in_order(exchange.all_to_all(rows));
  values.copy_(exchange.all_gather(part).flatten().narrow(0, 0, values.numel()));
  return 2 * (layout.world() - 1) * static_cast<std::int64_t>(part.nbytes());
}

}  // namespace accrue::distributed
