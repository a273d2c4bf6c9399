#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace accrue::observe {

/// A run's config as {section: {key: value}}: run.json's `config`, else config.toml unchanged;
/// empty if neither can be read.
nlohmann::json config_of(const nlohmann::json& run, const std::string& config_toml);

}  // namespace accrue::observe
