#pragma once

#include "models/files/gguf/gguf_format.h"
#include "models/files/safetensors_input.h"

namespace accrue::models {

/// What stands before the tensors' bytes.
struct GgufHeader {
  GgufKeys keys;
  std::vector<GgufTensor> tensors;  ///< as the file lists them
};

/// Reads the header and checks it against itself and the length of the file: nothing is larger than
/// the file has room for, names are there once, and tensors lie within the file without overlap.
/// Throws a usage Error that names the file, the key or tensor and what is wrong, and the type of a
/// tensor that this version does not read.
GgufHeader read_gguf_header(const InputFile& file);

}  // namespace accrue::models
