#include "distributed/reduce/buckets.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace accrue::distributed {
namespace {

/// The end of each flat allocation, by its number.
std::vector<std::int64_t> ends_of(std::span<const SlotPlace> places) {
  std::vector<std::int64_t> ends;
  for (const SlotPlace& place : places) {
    ends.resize(std::max(ends.size(), place.flat + 1));
    ends[place.flat] = std::max(ends[place.flat], place.offset + place.elements);
  }
  return ends;
}

/// How many elements a bucket may have if `left` of them are left from its first on.
std::int64_t most_elements(std::int64_t left, std::int64_t elements) {
  return std::clamp(left / 4, elements / 8, elements);
}

}  // namespace

std::vector<Bucket> make_buckets(std::span<const SlotPlace> places, std::int64_t elements) {
  std::vector<std::size_t> by_place(places.size());
  std::iota(by_place.begin(), by_place.end(), 0);
  std::ranges::sort(by_place, {}, [&](std::size_t slot) {
    return std::tuple(places[slot].flat, places[slot].offset);
  });
  const std::vector<std::int64_t> ends = ends_of(places);
  std::vector<Bucket> buckets;
  std::int64_t most = 0;
  for (const std::size_t slot : by_place) {
    const SlotPlace& place = places[slot];
    const auto grown = [&] { return place.offset + place.elements - buckets.back().offset; };
    if (buckets.empty() || buckets.back().flat != place.flat || grown() > most) {
      buckets.push_back({.flat = place.flat, .offset = place.offset});
      most = most_elements(ends[place.flat] - place.offset, elements);
    }
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

}  // namespace accrue::distributed
