#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/files/config_file.h"

namespace accrue::models {

/// Throws if a key that the config.json of any model may have asks for what no model here does:
/// quantised weights, layers that differ in other keys, another file in its place.
void check_common_keys(const ConfigFile& config);

/// Throws if a language model is to see what follows a token.
void check_is_causal(const ConfigFile& config);

/// transformers' names of GELU in its tanh form, the first its usual one.
std::vector<std::string> tanh_gelu_words();
bool is_tanh_gelu(std::string_view word);

}  // namespace accrue::models
