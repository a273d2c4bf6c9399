#include "models/files/gguf/container/gguf_dtypes.h"

namespace accrue::models {
namespace {

/// llama.cpp's numbers for files whose matrices are mostly of one type.
std::uint32_t file_type(GgufDtype dtype) {
  switch (dtype) {
    case GgufDtype::f32:
      return 0;
    case GgufDtype::f16:
      return 1;
    case GgufDtype::q8_0:
      return 7;
    case GgufDtype::bf16:
      break;
  }
  return 32;
}

}  // namespace

GgufType gguf_type_of(GgufDtype dtype) {
  switch (dtype) {
    case GgufDtype::f16:
      return GgufType::f16;
    case GgufDtype::q8_0:
      return GgufType::q8_0;
    case GgufDtype::bf16:
      return GgufType::bf16;
    case GgufDtype::f32:
      break;
  }
  return GgufType::f32;
}

void add_general_keys(std::string_view architecture, GgufDtype dtype, GgufKeyWriter& keys) {
  constexpr std::uint32_t quantization_version = 2;
  keys.add("general.architecture", std::string(architecture));
  keys.add("general.type", std::string("model"));
  keys.add("general.file_type", file_type(dtype));
  keys.add("general.quantization_version", quantization_version);
}

}  // namespace accrue::models
