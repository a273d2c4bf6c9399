#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::data {

/// An integer that does not fit into 64 bits, by its digits: a float would lose some. It is carried
/// as binary data, which JSON text cannot contain.
inline nlohmann::ordered_json large_integer(std::string_view digits) {
  return nlohmann::ordered_json::binary(std::vector<std::uint8_t>(digits.begin(), digits.end()));
}

/// The digits of a large_integer(); none for any other value.
inline std::optional<std::string> digits_of(const nlohmann::ordered_json& json) {
  if (!json.is_binary()) return std::nullopt;
  const auto& digits = json.get_binary();
  return std::string(digits.begin(), digits.end());
}

/// "number", "object", ...: a large_integer() is a number.
inline std::string type_of(const nlohmann::ordered_json& json) {
  return json.is_binary() ? "number" : json.type_name();
}

}  // namespace accrue::data
