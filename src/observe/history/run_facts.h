#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace accrue::observe {

/// The JSON value of `text`; a discarded one if it is not JSON, or deeper than anything in a run
/// (kDeepestJson), so that walking it needs little stack.
nlohmann::json parse_json(const std::string& text);

/// The object in the text of run.json; an empty one if it is not an object.
nlohmann::json parse_run_json(const std::string& text);

/// The value of `name` in `object`; null if `object` is not an object or has no such name.
const nlohmann::json& fact(const nlohmann::json& object, const char* name);

/// A number of steps or the like: an integer that is not negative; none for other values.
std::optional<std::int64_t> count_of(const nlohmann::json& value);

/// A value as JSON on one line.
std::string printed(const nlohmann::json& value);

}  // namespace accrue::observe
