#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

namespace accrue {

/// The integer in `value`, if it is one that fits; nlohmann-json would silently cast other
/// numbers.
inline std::optional<std::int64_t> whole_number(const nlohmann::json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  const bool is_too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  return is_too_large ? std::nullopt : std::optional(value.get<std::int64_t>());
}

}  // namespace accrue
