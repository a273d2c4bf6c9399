#pragma once

#include <string>
#include <string_view>

#include "accrue/models/llama.h"

namespace accrue::models {

/// Whether a config.json of this model_type is read by parse_llama_config().
bool is_llama_type(std::string_view model_type);

/// The shape and variant that a config.json states, in `options` (whose other members are kept, but
/// for config_json, which is `json`). Throws a usage Error naming `file` and the key where one is
/// missing, of the wrong type, or asks for what Llama is not.
LlamaOptions parse_llama_config(const std::string& json, const std::string& file,
                                LlamaOptions options);

/// config.json for transformers: that of `options.config_json` if there is one, else of
/// model_type llama. Throws a usage Error if it would not state what `options` do.
std::string make_llama_config(const LlamaOptions& options);

}  // namespace accrue::models
