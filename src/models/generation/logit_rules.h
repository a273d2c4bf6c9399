#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace accrue::models {

/// Tokens of which the last becomes more or less likely if the others precede it.
struct SequenceBias {
  std::vector<std::int64_t> tokens;
  double bias = 0;  ///< is added to the last one's logit
};

/// Makes ends of a text likelier, the longer it is: n tokens after the `start`-th added one,
/// |logit| * (factor^n - 1) is added to an end's logit.
struct EndGrowth {
  std::int64_t start = 0;
  double factor = 1;
};

/// Changes of a model's logits before a token is chosen, however it is chosen. These are the logits
/// processors of transformers, in its order, which is that of the members; as there, the text
/// includes the prompt.
struct LogitRules {
  std::vector<SequenceBias> sequence_bias = {};
  /// Of tokens of the prompt; the inverse of `repetition_penalty`: above 1 they become likelier.
  double prompt_penalty = 1;
  /// Logits of tokens that are in the text are divided by it if they are positive, and multiplied
  /// if they are negative (Keskar et al., arXiv:1909.05858); 1: unchanged.
  double repetition_penalty = 1;
  /// This many consecutive tokens occur only once in the text; 0: no limit.
  std::int64_t no_repeat_ngram = 0;
  /// This many consecutive tokens of the prompt do not occur again.
  std::int64_t no_prompt_ngram = 0;
  /// Sequences that must not occur. One that is only an end of the text has no effect.
  std::vector<std::vector<std::int64_t>> bad_words = {};
  std::int64_t min_length = 0;      ///< of the text with its prompt, before it may end
  std::int64_t min_new_tokens = 0;  ///< of the added tokens, before it may end
  std::optional<std::int64_t> forced_begin = {};  ///< the token after a text of one token
  std::vector<std::int64_t> forced_end = {};      ///< one of them is the last added token
  std::optional<EndGrowth> end_growth = {};
  std::vector<std::int64_t> suppressed = {};        ///< never added
  std::vector<std::int64_t> suppressed_first = {};  ///< not the first added token
};

/// A text whose next token is to be chosen.
struct OpenText {
  std::span<const std::int64_t> tokens = {};  ///< in the vocabulary
  std::int64_t given = 0;                     ///< how many of them are the prompt
  /// Their number once all are added.
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::span<const std::int64_t> ends = {};  ///< tokens that end it
};

/// Throws a usage Error that names a rule that is out of range, or has a token that is not in the
/// vocabulary.
void check_rules(const LogitRules& rules, std::int64_t vocab);

/// The logits after the rules: minus infinity for tokens that may not be chosen. Rounded to fp32 if
/// `in_fp32`, as in transformers, so that two that are equal there are equal here.
std::vector<double> ruled_logits(std::vector<double> logits, const LogitRules& rules,
                                 const OpenText& text, bool in_fp32);

}  // namespace accrue::models
