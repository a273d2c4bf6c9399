#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accrue::models {

/// The kind of model whose tensor names in Hugging Face are meant.
enum class GgufNames { llama, llama_with_post_norms, gpt2 };

/// The kind for a LlamaVariant with these `post_norms`, which decide which norm is meant.
constexpr GgufNames gguf_names_of_llama(bool post_norms) {
  return post_norms ? GgufNames::llama_with_post_norms : GgufNames::llama;
}

/// llama.cpp's names for tensors, and Hugging Face's. None for an unknown name.
std::optional<std::string> hub_name_of_gguf(std::string_view name, GgufNames whose);
std::optional<std::string> gguf_name_of_hub(std::string_view name, GgufNames whose);

/// Divisors of the frequencies of rotary positions; this tensor is not a weight.
inline constexpr std::string_view gguf_rotary_factors = "rope_freqs.weight";

}  // namespace accrue::models
