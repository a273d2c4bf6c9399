#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::train {

/// Log-probabilities as the bytes of a file, and back: none if they are not those of `pairs` pairs,
/// finite.
std::string reference_to_bytes(const std::vector<double>& log_probabilities);
std::optional<std::vector<double>> reference_of_bytes(std::string_view bytes, std::int64_t pairs);

}  // namespace accrue::train
