#include "models/files/gguf/container/gguf_format.h"

#include <algorithm>

namespace accrue::models {
namespace {

constexpr GgufTypeTraits plain(GgufType type, std::string_view name, std::int64_t bytes,
                               at::ScalarType dtype) {
  return {type, name, 1, bytes, dtype, std::nullopt};
}

constexpr GgufTypeTraits packed(GgufType type, std::string_view name, kernels::BlockFormat format) {
  const kernels::BlockSize size = kernels::size_of(format);
  return {type, name, size.elements, size.bytes, at::kFloat, format};
}

constexpr std::array<GgufTypeTraits, 7> known_types{{
    plain(GgufType::f32, "F32", 4, at::kFloat),
    plain(GgufType::f16, "F16", 2, at::kHalf),
    plain(GgufType::bf16, "BF16", 2, at::kBFloat16),
    packed(GgufType::q8_0, "Q8_0", kernels::BlockFormat::q8_0),
    packed(GgufType::q4_k, "Q4_K", kernels::BlockFormat::q4_k),
    packed(GgufType::q5_k, "Q5_K", kernels::BlockFormat::q5_k),
    packed(GgufType::q6_k, "Q6_K", kernels::BlockFormat::q6_k),
}};

}  // namespace

const GgufTypeTraits* find_gguf_type(std::uint32_t number) {
  const auto found =
      std::find_if(known_types.begin(), known_types.end(), [&](const GgufTypeTraits& traits) {
        return static_cast<std::uint32_t>(traits.type) == number;
      });
  return found == known_types.end() ? nullptr : &*found;
}

const GgufTypeTraits& traits_of(GgufType type) {
  return *find_gguf_type(static_cast<std::uint32_t>(type));
}

std::string listed_gguf_types() {
  std::string list;
  for (const GgufTypeTraits& traits : known_types)
    list += (list.empty() ? "" : ", ") + std::string(traits.name);
  return list;
}

std::string quoted_gguf_text(std::string_view text) {
  constexpr std::size_t longest = 80;
  return '"' + std::string(text.substr(0, longest)) + (text.size() > longest ? "...\"" : "\"");
}

Error damaged_gguf(const std::string& file, const std::string& place, std::string_view expected,
                   std::string_view received) {
  return usage_error("read " + file + (place.empty() ? "" : ", " + place), expected, received,
                     "another copy of the file: this one is damaged or no GGUF");
}

}  // namespace accrue::models
