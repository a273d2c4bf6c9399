#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace accrue::models {

/// The transformers equivalent of an architecture of llama.cpp.
struct GgufArchitecture {
  std::string_view name, model_type, class_name;
  /// Queries and keys are stored for rotations of adjacent channels.
  bool rotates_neighbours = false;
  bool is_gemma = false;
  std::int64_t window_period = 0;  ///< one of this many layers is global
  std::int64_t layers_of_27b = 0;  ///< of the model with scores divided by sqrt(width / heads)
};

inline constexpr std::array<GgufArchitecture, 5> gguf_architectures{{
    {"llama", "llama", "LlamaForCausalLM", true},
    {"qwen2", "qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "qwen3", "Qwen3ForCausalLM"},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", false, true, 2, 46},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", false, true, 6, 62},
}};

/// The number by whose root llama.cpp divides scores, if that is not the width of a head.
constexpr std::int64_t gguf_query_scalar(const GgufArchitecture& architecture, std::int64_t layers,
                                         std::int64_t width, std::int64_t heads,
                                         std::int64_t head_width) {
  return heads > 0 && layers == architecture.layers_of_27b ? width / heads : head_width;
}

}  // namespace accrue::models
