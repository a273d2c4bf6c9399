#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accrue::models {

/// Whose names Hugging Face gives to the tensors of a model.
enum class GgufNames { llama, llama_with_post_norms, gpt2 };

/// Those of a LlamaVariant with such `post_norms`, which decide which norm is meant.
constexpr GgufNames gguf_names_of_llama(bool post_norms) {
  return post_norms ? GgufNames::llama_with_post_norms : GgufNames::llama;
}

/// The names that llama.cpp has for tensors, and Hugging Face's. None for a name that is neither's.
std::optional<std::string> hub_name_of_gguf(std::string_view name, GgufNames whose);
std::optional<std::string> gguf_name_of_hub(std::string_view name, GgufNames whose);

/// Factors that frequencies of rotary positions are divided by, which is no weight.
inline constexpr std::string_view gguf_rotary_factors = "rope_freqs.weight";

}  // namespace accrue::models
