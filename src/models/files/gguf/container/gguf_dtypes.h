#pragma once

#include <string_view>

#include "accrue/models/gguf.h"
#include "models/files/gguf/container/gguf_writer.h"

namespace accrue::models {

/// The type of matrices.
GgufType gguf_type_of(GgufDtype dtype);

/// Adds the general keys of every model file.
void add_general_keys(std::string_view architecture, GgufDtype dtype, GgufKeyWriter& keys);

}  // namespace accrue::models
