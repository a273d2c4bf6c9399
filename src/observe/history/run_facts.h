#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace accrue::observe {

/// The value that `text` is; a discarded one if it is no JSON, or deeper than anything that a run
/// states (kDeepestJson), so that whoever walks through it needs little stack.
nlohmann::json parse_json(const std::string& text);

/// The object that the text of run.json is; an empty one where it is none.
nlohmann::json parse_run_json(const std::string& text);

/// What stands in `object` under `name`; null if `object` is none or has no such name.
const nlohmann::json& fact(const nlohmann::json& object, const char* name);

/// A number of steps or the like: an integer that is not negative; none if `value` is none.
std::optional<std::int64_t> count_of(const nlohmann::json& value);

/// A value as JSON has it, on one line.
std::string printed(const nlohmann::json& value);

}  // namespace accrue::observe
