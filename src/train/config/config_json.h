#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "accrue/train/config.h"

namespace accrue::train {

/// The config as nested JSON, {section: {key: value}}, with every value that it reads stated: the
/// content of run.json, and the same as that of to_toml().
nlohmann::json to_json(const Config& config);

/// Reads back what to_json() made, with `overrides` on top (parse_config). `origin` names the file
/// in errors. Throws a usage Error if it is not such JSON, or if this version does not have a key
/// or value in it.
Config config_from_json(const nlohmann::json& sections, const std::string& origin,
                        const std::vector<std::string>& overrides = {});

}  // namespace accrue::train
