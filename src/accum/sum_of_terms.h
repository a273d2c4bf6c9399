#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace accrue::accum {

/// Adds up `term(i)` over [0, count) in double, in an order that only depends on `count`, with as
/// many partial sums as a vector register has lanes, so that the compiler can use one.
template <typename Term>
double sum_of_terms(std::int64_t count, const Term& term) {
  constexpr std::int64_t lanes_at_once = 16;
  std::array<double, lanes_at_once> lanes{};
  std::int64_t i = 0;
  for (; i + lanes_at_once <= count; i += lanes_at_once)
    for (std::int64_t lane = 0; lane < lanes_at_once; ++lane)
      lanes[static_cast<std::size_t>(lane)] += term(i + lane);
  double sum = 0;
  for (; i < count; ++i) sum += term(i);
  return std::accumulate(lanes.begin(), lanes.end(), sum);
}

/// The sum of the squares of `values`, in that order.
template <typename Element>
double sum_of_squares_of(const Element* values, std::int64_t count) {
  return sum_of_terms(count, [values](std::int64_t i) {
    const double value = values[i];
    return value * value;
  });
}

}  // namespace accrue::accum
