#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/files/config/config_file.h"

namespace accrue::models {

/// Throws if a key that the config.json of any model may have requests something that no model here
/// supports: quantised weights, layers that differ in other keys, another file in its place.
void check_common_keys(const ConfigFile& config);

/// Throws if a language model is to see the tokens that follow.
void check_is_causal(const ConfigFile& config);

/// transformers' names of GELU in its tanh form; its default comes first.
std::vector<std::string> tanh_gelu_words();
bool is_tanh_gelu(std::string_view word);

}  // namespace accrue::models
