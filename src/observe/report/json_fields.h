#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace accrue::observe {

/// Fields of JSON that another program may have written: by pointer ("/machine/host"), and only if
/// they exist with the expected type.
std::optional<double> number_at(const nlohmann::json& json, const char* pointer);
/// A number of bytes, samples or the like: an integer that is not negative.
std::optional<std::int64_t> integer_at(const nlohmann::json& json, const char* pointer);
/// A text as it is, a number in JSON form; "" if it is neither.
std::string text_at(const nlohmann::json& json, const char* pointer);
/// Null if it is not an array.
const nlohmann::json* array_at(const nlohmann::json& json, const char* pointer);

}  // namespace accrue::observe
