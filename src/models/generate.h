#pragma once

#include <cstdint>
#include <vector>

#include "accrue/models/language_model.h"

namespace accrue::models {

struct GenerateOptions {
  std::int64_t max_tokens = 256;  ///< tokens to add
  double temperature = 1;         ///< 0: always the likeliest token
  std::int64_t top_k = 0;         ///< choose among the k likeliest; 0: among all
  std::uint64_t seed = 1337;
};

/// `prompt` followed by `max_tokens` tokens drawn from the model. Each token sees the last
/// `context` tokens before it. The n-th draw depends on the seed and n only, so equal arguments
/// give equal tokens. Of tokens with equal logits the lowest id comes first. Throws a usage Error
/// for an empty prompt, ids outside the vocabulary or options out of range, and a runtime Error
/// where the model's logits are not finite.
std::vector<std::int64_t> generate(LanguageModel& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options);

}  // namespace accrue::models
