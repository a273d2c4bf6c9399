#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace accrue::observe {

/// Fields of JSON that somebody else may have written: by pointer ("/machine/host"), and only if
/// they are there with the expected type.
std::optional<double> number_at(const nlohmann::json& json, const char* pointer);
/// A number of bytes, samples or the like: an integer that is not negative.
std::optional<std::int64_t> integer_at(const nlohmann::json& json, const char* pointer);
/// A text as it is, a number as JSON writes it; "" if there is neither.
std::string text_at(const nlohmann::json& json, const char* pointer);
/// Null if there is no array.
const nlohmann::json* array_at(const nlohmann::json& json, const char* pointer);

}  // namespace accrue::observe
