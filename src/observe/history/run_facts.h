#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace accrue::observe {

/// The object that the text of run.json is; an empty one where it is none.
nlohmann::json parse_run_json(const std::string& text);

/// What stands in `object` under `name`; null where `object` is none or has no such name.
const nlohmann::json& fact(const nlohmann::json& object, const char* name);

/// A value as JSON has it, on one line.
std::string printed(const nlohmann::json& value);

}  // namespace accrue::observe
