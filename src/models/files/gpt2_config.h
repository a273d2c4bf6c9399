#pragma once

#include <string>

#include "accrue/models/gpt2.h"

namespace accrue::models {

/// The shape that a GPT-2 config.json states, in `options` (whose other members are kept). Throws a
/// usage Error naming `file` and the key where one is missing, of the wrong type, or asks for what
/// Gpt2 is not.
Gpt2Options parse_gpt2_config(const std::string& json, const std::string& file,
                              Gpt2Options options);

/// config.json for transformers' GPT2LMHeadModel.
std::string make_gpt2_config(const Gpt2Options& options);

}  // namespace accrue::models
