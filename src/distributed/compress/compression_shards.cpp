#include "distributed/compress/compression_shards.h"

#include <algorithm>
#include <string>

#include "accrue/core/error.h"

namespace accrue::distributed {
namespace {

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

void require_at_least(std::int64_t least, std::int64_t value, const char* what) {
  if (value < least)
    throw usage_error("divide a flat buffer among ranks",
                      std::string(what) + " of at least " + std::to_string(least),
                      std::to_string(value), "the world size and buffer of this run");
}

}  // namespace

CompressionShards::CompressionShards(std::int64_t elements, std::int64_t world,
                                     std::int64_t alignment)
    : elements_(elements), world_(world) {
  require_at_least(0, elements, "elements");
  require_at_least(1, world, "a world size");
  require_at_least(1, alignment, "an alignment");
  shard_elements_ = divided_up(divided_up(elements, world), alignment) * alignment;
}

FlatRange CompressionShards::range(std::int64_t rank) const {
  const std::int64_t begin = std::min(rank * shard_elements_, elements_);
  return {begin, std::min(shard_elements_, elements_ - begin)};
}

}  // namespace accrue::distributed
