#pragma once

#include <string>

#include "accrue/models/gpt2.h"
#include "models/files/gguf/container/gguf_file.h"
#include "models/files/gguf/container/gguf_writer.h"

namespace accrue::models {

inline constexpr std::string_view gguf_gpt2 = "gpt2";  ///< the architecture's name

/// The config.json for the keys of a GPT-2's GGUF file. Throws a usage Error that names the file
/// and the key if one is missing, of another type or requests something not supported by Gpt2.
std::string gpt2_config_of_gguf(const GgufFile& file);

/// Adds the keys of a model's shape.
void add_gpt2_keys(const Gpt2Options& options, GgufKeyWriter& keys);

}  // namespace accrue::models
