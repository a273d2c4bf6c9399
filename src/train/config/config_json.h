#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "accrue/train/config.h"

namespace accrue::train {

/// The config as nested JSON, {section: {key: value}}, with every value stated that it reads: what
/// run.json keeps, and what to_toml() says.
nlohmann::json to_json(const Config& config);

/// Reads back what to_json() made, with `overrides` on top (parse_config). `origin` names the file
/// in errors. Throws a usage Error if it is no such JSON, or where this version does not have
/// what it states.
Config config_from_json(const nlohmann::json& sections, const std::string& origin,
                        const std::vector<std::string>& overrides = {});

}  // namespace accrue::train
