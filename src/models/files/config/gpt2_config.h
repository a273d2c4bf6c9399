#pragma once

#include <string>

#include "accrue/models/gpt2.h"

namespace accrue::models {

/// The shape in a GPT-2 config.json, written to `options` (whose other members are kept). Throws a
/// usage Error naming `file` and the key if one is missing, of the wrong type, or requests
/// something that Gpt2 does not support.
Gpt2Options parse_gpt2_config(const std::string& json, const std::string& file,
                              Gpt2Options options);

/// config.json for transformers' GPT2LMHeadModel.
std::string make_gpt2_config(const Gpt2Options& options);

}  // namespace accrue::models
