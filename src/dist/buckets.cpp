#include "buckets.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace accrue::dist {

std::vector<Bucket> make_buckets(std::span<const SlotPlace> places, std::int64_t elements) {
  std::vector<std::size_t> by_place(places.size());
  std::iota(by_place.begin(), by_place.end(), 0);
  std::ranges::sort(by_place, {}, [&](std::size_t slot) {
    return std::tuple(places[slot].flat, places[slot].offset);
  });
  std::vector<Bucket> buckets;
  for (const std::size_t slot : by_place) {
    const SlotPlace& place = places[slot];
    const auto grown = [&] { return place.offset + place.elements - buckets.back().offset; };
    if (buckets.empty() || buckets.back().flat != place.flat || grown() > elements)
      buckets.push_back({.flat = place.flat, .offset = place.offset});
    buckets.back().elements = grown();
    buckets.back().slots.push_back(slot);
  }
  return buckets;
}

std::vector<std::int64_t> readiness_order(const std::vector<Bucket>& buckets,
                                          std::span<const std::int64_t> final_at) {
  std::vector<std::int64_t> order(buckets.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int64_t bucket) {
    std::int64_t last = 0;
    for (const std::size_t slot : buckets[static_cast<std::size_t>(bucket)].slots)
      last = std::max(last, final_at[slot]);
    return last;
  });
  return order;
}

}  // namespace accrue::dist
