#pragma once

#include <string>

#include "models/files/gguf/container/gguf_file.h"

namespace accrue::models {

/// The config.json for the keys of a GGUF file. Throws a usage Error that names the file and the
/// key if one is missing, of another type or requests something not supported by Llama.
std::string config_of_gguf(const GgufFile& file);

}  // namespace accrue::models
