#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/generation/logit_rules.h"

namespace accrue::models {

/// How the next token is drawn from a model's logits. The parts apply one after the other, in this
/// order (that of transformers): rules, temperature, top_k, top_p.
struct SamplingOptions {
  LogitRules rules = {};
  double temperature = 1;  ///< logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;  ///< choose among the k likeliest; 0: among all
  /// Choose among the fewest likeliest tokens whose probabilities sum to at least this, in (0, 1]
  /// (nucleus sampling: Holtzman et al., arXiv:1904.09751).
  double top_p = 1;
};

/// Throws a usage Error that names an option that is out of range, or a rule that is out of range
/// for a vocabulary of this size.
void check_sampling(const SamplingOptions& options, std::int64_t vocab);

/// A token that may be drawn, and how likely it is.
struct Choice {
  std::int64_t id;
  double probability;
};

/// All tokens that may be drawn, the likeliest first, of equally likely ones the lowest id; the
/// probabilities sum to 1. `logits` [vocab] follow `text`. Throws a runtime Error if a logit is not
/// finite, and a usage Error if the rules leave no token to draw.
std::vector<Choice> choices(const at::Tensor& logits, const OpenText& text,
                            const SamplingOptions& options);

/// The token at `uniform`, in [0, 1), if choices() divide the interval in their order.
std::int64_t draw_token(const at::Tensor& logits, const OpenText& text,
                        const SamplingOptions& options, double uniform);

}  // namespace accrue::models
