#pragma once

#include <string>

#include "models/files/gguf/gguf_file.h"

namespace accrue::models {

/// The config.json that says what the keys of a GGUF file do. Throws a usage Error that names the
/// file and the key where one is missing, of another type or asks for what a Llama is not.
std::string config_of_gguf(const GgufFile& file);

}  // namespace accrue::models
