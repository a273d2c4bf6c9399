#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/models/gguf_magic.h"
#include "kernels/blocks/blocks.h"

namespace accrue::models {

/// GGUF, versions 2 and 3 (docs/gguf.md of github.com/ggml-org/ggml): "GGUF", the version, the
/// numbers of tensors and keys, the keys with their values, the description of each tensor, and the
/// tensors' bytes, each aligned. Little-endian.
inline constexpr std::uint32_t gguf_version = 3;
inline constexpr std::int64_t gguf_usual_alignment = 32;

/// The storage of a tensor's numbers, by ggml's type numbers.
enum class GgufType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30,
};

/// The properties of a type.
struct GgufTypeTraits {
  GgufType type;
  std::string_view name;  ///< ggml's
  std::int64_t elements;  ///< of a block; rows are whole blocks
  std::int64_t bytes;     ///< of a block
  at::ScalarType dtype;   ///< the dtype that holds the values
  std::optional<kernels::BlockFormat> blocks;
};

/// The traits of a type by its number; null if this version does not read it.
const GgufTypeTraits* find_gguf_type(std::uint32_t number);
const GgufTypeTraits& traits_of(GgufType type);
/// "F32, F16, BF16, ...".
std::string listed_gguf_types();

/// The types of keys' values, by their numbers in the format.
enum class GgufValueType : std::uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  text = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

/// A value as it is read: whole numbers of all widths are alike, and a float32 becomes the shortest
/// decimal number that rounds to it (the 1e-5 from which the float was made).
using GgufValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>>;
using GgufKeys = std::map<std::string, GgufValue, std::less<>>;

/// The position and the form of a tensor.
struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<std::int64_t> shape;  ///< as in at::Tensor: the row's length comes last
  std::int64_t offset = 0;          ///< of its first byte, from the beginning of the file
  std::int64_t elements = 0, bytes = 0;
};

/// A usage Error about a file that violates the format. `place` is the position in it ("tensor
/// \"x\""), and may be empty.
Error damaged_gguf(const std::string& file, const std::string& place, std::string_view expected,
                   std::string_view received);

/// A text of a file in quotes, shortened for a message.
std::string quoted_gguf_text(std::string_view text);

}  // namespace accrue::models
