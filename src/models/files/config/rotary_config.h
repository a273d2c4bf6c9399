#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "accrue/models/llama.h"
#include "models/files/config/config_file.h"

namespace accrue::models {

/// Reads the rotary positions in a config.json into `variant`: "rope_theta" and "rope_scaling",
/// or "rope_parameters" in the form of transformers 5. With `by_kind_of_layer` (Gemma 3) local
/// layers have separate frequencies, which are not scaled. `positions` is
/// max_position_embeddings. Throws a usage Error naming the key if a scaling is not one of
/// RotaryScaling's.
void read_rotary(const ConfigFile& config, bool by_kind_of_layer, std::int64_t positions,
                 LlamaVariant& variant);

/// States `rotary` in `config`, as "rope_theta" and "rope_scaling", which all versions of
/// transformers read.
void write_rotary(const RotaryOptions& rotary, nlohmann::json& config);

}  // namespace accrue::models
