#pragma once

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::data {

/// The keys of a line except those in `read`, in their order.
inline std::vector<std::string> keys_besides(const nlohmann::ordered_json& line,
                                             std::initializer_list<std::string_view> read) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : line.items())
    if (std::find(read.begin(), read.end(), key) == read.end()) keys.push_back(key);
  return keys;
}

}  // namespace accrue::data
