#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace accrue::models {

/// How the next token is drawn from a model's logits. The parts act one after the other, in this
/// order (that of transformers): penalty, temperature, top_k, top_p.
struct SamplingOptions {
  double temperature = 1;  ///< logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;  ///< choose among the k likeliest; 0: among all
  /// Choose among the fewest likeliest tokens whose probabilities sum to at least this, in (0, 1]
  /// (nucleus sampling: Holtzman et al., arXiv:1904.09751).
  double top_p = 1;
  /// Logits of tokens that the text has are divided by it where they are positive, and multiplied
  /// where they are negative (Keskar et al., arXiv:1909.05858); 1: they stay.
  double repetition_penalty = 1;
};

/// Throws a usage Error that names an option that is out of range.
void check_sampling(const SamplingOptions& options);

/// A token that may be drawn, and how likely it is.
struct Choice {
  std::int64_t id;
  double probability;
};

/// All tokens that may be drawn, the likeliest first, of equally likely ones the lowest id; the
/// probabilities sum to 1. `logits` [vocab], behind a text of `tokens` whose ids are in the
/// vocabulary. Throws a runtime Error where a logit is not finite.
std::vector<Choice> choices(const at::Tensor& logits, std::span<const std::int64_t> tokens,
                            const SamplingOptions& options);

/// The token at `uniform`, in [0, 1), where choices() divide the interval in their order.
std::int64_t draw_token(const at::Tensor& logits, std::span<const std::int64_t> tokens,
                        const SamplingOptions& options, double uniform);

}  // namespace accrue::models
