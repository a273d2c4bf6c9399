#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accrue::models {

/// The names that llama.cpp has for tensors, and Hugging Face's. `post_norms` is that of
/// LlamaVariant: it decides which norm is meant. None for a name that is neither's.
std::optional<std::string> hub_name_of_gguf(std::string_view name, bool post_norms);
std::optional<std::string> gguf_name_of_hub(std::string_view name, bool post_norms);

/// Factors that frequencies of rotary positions are divided by, which is no weight.
inline constexpr std::string_view gguf_rotary_factors = "rope_freqs.weight";

}  // namespace accrue::models
