#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/generation/decoding.h"
#include "models/generation/sampling.h"

namespace accrue::models {

struct GenerateOptions {
  std::int64_t max_tokens = 256;  ///< tokens to add
  double temperature = 1;         ///< as in SamplingOptions, like the next ones
  std::int64_t top_k = 0;
  double top_p = 1;
  std::uint64_t seed = 1337;
  std::vector<std::int64_t> end_tokens = {};  ///< a text ends before any of them
  LogitRules rules = {};
};

/// Tokens that a model adds to a text, one after the other. Each sees the last `context` tokens
/// before it. The n-th draw depends only on the seed and n, so equal arguments give equal tokens.
class Generation {
 public:
  /// `decoding` is kept by reference. Throws a usage Error for an empty prompt, ids outside the
  /// vocabulary or options out of range.
  Generation(Decoding& decoding, std::vector<std::int64_t> prompt, const GenerateOptions& options);

  /// The next token; none if max_tokens were added, or an end token was drawn. Throws a runtime
  /// Error if the model's logits are not finite.
  std::optional<std::int64_t> next();

  /// The prompt and the added tokens, without an end token.
  const std::vector<std::int64_t>& tokens() const { return tokens_; }
  /// Whether an end token was drawn.
  bool has_ended() const { return has_ended_; }

 private:
  OpenText open_text() const;

  Decoding& decoding_;
  std::vector<std::int64_t> tokens_;
  GenerateOptions options_;
  SamplingOptions sampling_;
  std::int64_t given_;  ///< tokens of the prompt
  std::int64_t drawn_ = 0;
  bool has_ended_ = false;
};

/// `prompt` with everything that a Generation adds.
std::vector<std::int64_t> generate(LanguageModel& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options);

}  // namespace accrue::models
