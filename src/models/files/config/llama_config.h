#pragma once

#include <string>
#include <string_view>

#include "accrue/models/llama.h"

namespace accrue::models {

/// Whether a config.json of this model_type is read by parse_llama_config().
bool is_llama_type(std::string_view model_type);

/// The shape and variant in a config.json, written to `options` (whose other members are kept,
/// except config_json, which is `json`). Throws a usage Error naming `file` and the key if one is
/// missing, of the wrong type, or requests something that Llama does not support.
LlamaOptions parse_llama_config(const std::string& json, const std::string& file,
                                LlamaOptions options);

/// config.json for transformers: `options.config_json` if there is one, else one of model_type
/// llama. Throws a usage Error if it would not match `options`.
std::string make_llama_config(const LlamaOptions& options);

}  // namespace accrue::models
