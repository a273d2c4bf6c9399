#pragma once

#include "models/files/gguf/container/gguf_format.h"
#include "models/files/tensors/safetensors_input.h"

namespace accrue::models {

/// The part of a file before the tensors' bytes.
struct GgufHeader {
  GgufKeys keys;
  std::vector<GgufTensor> tensors;  ///< in the order of the file
};

/// Reads the header and checks it for consistency, also with the length of the file: nothing is
/// larger than the file allows, names are unique, and tensors lie within the file without overlap.
/// Throws a usage Error that names the file, the key or tensor and the problem, and the type of a
/// tensor that this version does not read.
GgufHeader read_gguf_header(const InputFile& file);

}  // namespace accrue::models
