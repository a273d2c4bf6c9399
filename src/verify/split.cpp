#include "verify/split.h"

#include <algorithm>
#include <random>

namespace accrue::proof {

Split even_split(batch::Range samples, std::int64_t micro) {
  return {"micro-batches of " + std::to_string(micro), batch::split(samples, micro)};
}

Split reversed(Split split) {
  std::ranges::reverse(split.parts);
  split.name += ", reversed";
  return split;
}

Split shuffled(Split split, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::ranges::shuffle(split.parts, random);
  split.name += ", shuffled";
  return split;
}

Split uneven_split(batch::Range samples) {
  const std::int64_t total = samples.size();
  // Batch normalisation refuses a part of one value.
  const std::int64_t least = total >= 6 ? 2 : 1;
  Split split{"uneven parts", {}};
  std::int64_t begin = samples.begin;
  for (const std::int64_t share : {2, 4}) {
    const std::int64_t size = std::max(least, share * total / 15);
    if (samples.end - begin <= size) break;
    split.parts.push_back({begin, begin + size});
    begin += size;
  }
  split.parts.push_back({begin, samples.end});
  return split;
}

}  // namespace accrue::proof
