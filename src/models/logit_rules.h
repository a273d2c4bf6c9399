#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace accrue::models {

/// Tokens of which the last one becomes more or less likely where the others stand before it.
struct SequenceBias {
  std::vector<std::int64_t> tokens;
  double bias = 0;  ///< is added to the last one's logit
};

/// Makes ends of a text likelier, the longer it is: n tokens past the `start`-th that was added,
/// |logit| * (factor^n - 1) is added to an end's logit.
struct EndGrowth {
  std::int64_t start = 0;
  double factor = 1;
};

/// What changes a model's logits before a token is taken, whatever is taken then. These are the
/// logits processors of transformers, in its order, which is that of the members; as there, the
/// text that is looked at has the prompt in it.
struct LogitRules {
  std::vector<SequenceBias> sequence_bias = {};
  /// Of tokens of the prompt; the reverse of `repetition_penalty`: above 1 they become likelier.
  double prompt_penalty = 1;
  /// Logits of tokens that the text has are divided by it where they are positive, and multiplied
  /// where they are negative (Keskar et al., arXiv:1909.05858); 1: they stay.
  double repetition_penalty = 1;
  /// So many tokens in a row occur once in the text; 0: as often as they do.
  std::int64_t no_repeat_ngram = 0;
  /// So many tokens in a row of the prompt do not occur again.
  std::int64_t no_prompt_ngram = 0;
  /// Sequences that do not occur. One that is an end of the text alone has no effect.
  std::vector<std::vector<std::int64_t>> bad_words = {};
  std::int64_t min_length = 0;      ///< of the text before it may end, with its prompt
  std::int64_t min_new_tokens = 0;  ///< of what is added before it may end
  std::optional<std::int64_t> forced_begin = {};  ///< the token behind a text of one
  std::vector<std::int64_t> forced_end = {};      ///< one of them is the last that is added
  std::optional<EndGrowth> end_growth = {};
  std::vector<std::int64_t> suppressed = {};        ///< never added
  std::vector<std::int64_t> suppressed_first = {};  ///< not the first that is added
};

/// A text whose next token is to be taken.
struct OpenText {
  std::span<const std::int64_t> tokens = {};  ///< in the vocabulary
  std::int64_t given = 0;                     ///< how many of them are the prompt
  /// How many there are once all are added.
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::span<const std::int64_t> ends = {};  ///< tokens that end it
};

/// Throws a usage Error that names a rule that is out of range, or has a token that is not in the
/// vocabulary.
void check_rules(const LogitRules& rules, std::int64_t vocab);

/// The logits by the rules: minus infinity of tokens that may not be taken. Rounded to fp32 where
/// `in_fp32`, as transformers does it, so that two that are equal there are equal here.
std::vector<double> ruled_logits(std::vector<double> logits, const LogitRules& rules,
                                 const OpenText& text, bool in_fp32);

}  // namespace accrue::models
