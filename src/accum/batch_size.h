#pragma once

#include <cstdint>
#include <variant>

#include "accrue/accum/accumulator.h"

namespace accrue {

inline bool is_stated(const BatchSize& size) {
  return !std::holds_alternative<std::monostate>(size);
}

inline std::int64_t count_of(const BatchSize& size) {
  if (const auto* tokens = std::get_if<Tokens>(&size)) return tokens->count;
  if (const auto* samples = std::get_if<Samples>(&size)) return samples->count;
  return 0;
}

/// The largest batch: windows count in doubles, which have all integers up to here.
inline constexpr std::int64_t largest_batch = std::int64_t{1} << 53;

inline bool is_batch(std::int64_t count) { return count >= 1 && count <= largest_batch; }

}  // namespace accrue
