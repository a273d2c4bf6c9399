#include "models/generation/logit_rules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "accrue/core/error.h"

namespace accrue::models {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

using TokenSpan = std::span<const std::int64_t>;

bool ends_with(TokenSpan text, TokenSpan end) {
  return end.size() <= text.size() && std::ranges::equal(text.last(end.size()), end);
}

bool is_end_alone(TokenSpan word, TokenSpan ends) {
  return word.size() == 1 && std::ranges::find(ends, word.front()) != ends.end();
}

/// The tokens that follow the last `size` - 1 tokens of `behind` wherever these occur in
/// `text`.
std::vector<std::int64_t> tokens_that_repeat(TokenSpan text, TokenSpan behind, std::int64_t size) {
  std::vector<std::int64_t> repeated;
  const auto all = static_cast<std::size_t>(size), before = all - 1;
  if (text.size() < all || behind.size() < before) return repeated;
  const TokenSpan beginning = behind.last(before);
  for (std::size_t at = 0; at + all <= text.size(); ++at)
    if (std::ranges::equal(text.subspan(at, before), beginning))
      repeated.push_back(text[at + before]);
  return repeated;
}

/// Logits to which the rules are applied, one after the other.
class RuledLogits {
 public:
  RuledLogits(std::vector<double> logits, const OpenText& text, bool in_fp32)
      : logits_(std::move(logits)), text_(text), in_fp32_(in_fp32) {}

  std::vector<double> take() { return std::move(logits_); }

  void add(const std::vector<SequenceBias>& biases) {
    std::map<std::int64_t, double> added;      // sums of biases by token
    for (const bool is_alone : {true, false})  // sums in the order of transformers
      for (const SequenceBias& one : biases)
        if ((one.tokens.size() == 1) == is_alone && may_complete(one.tokens))
          added[one.tokens.back()] = rounded(added[one.tokens.back()] + rounded(one.bias));
    for (const auto& [token, bias] : added) set(token, rounded(at(token) + bias));
  }

  /// Each of the tokens once.
  void penalise(TokenSpan tokens, double penalty) {
    if (penalty == 1) return;
    const double factor = rounded(penalty);
    std::vector<bool> is_done(logits_.size());
    for (const std::int64_t token : tokens) {
      if (is_done.at(index(token))) continue;
      is_done[index(token)] = true;
      set(token, rounded(at(token) < 0 ? at(token) * factor : at(token) / factor));
    }
  }

  void forbid(TokenSpan tokens) {
    for (const std::int64_t token : tokens)
      if (index(token) < logits_.size()) set(token, kNever);
  }

  void forbid_ngrams_of(TokenSpan text, std::int64_t size) {
    if (size > 0) forbid(tokens_that_repeat(text, text_.tokens, size));
  }

  void forbid_words(const std::vector<std::vector<std::int64_t>>& words) {
    for (const std::vector<std::int64_t>& word : words)
      if (!is_end_alone(word, text_.ends) && may_complete(word)) set(word.back(), kNever);
  }

  /// Suppresses all but these.
  void force(TokenSpan tokens) {
    std::fill(logits_.begin(), logits_.end(), kNever);
    for (const std::int64_t token : tokens) set(token, 0);
  }

  void grow_ends(const EndGrowth& growth) {
    const std::int64_t past = length() - growth.start - text_.given;
    if (past <= 0) return;
    const double share = rounded(std::pow(growth.factor, static_cast<double>(past)) - 1);
    std::vector<std::int64_t> ends(text_.ends.begin(), text_.ends.end());
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    for (const std::int64_t end : ends)
      if (index(end) < logits_.size() && std::isfinite(at(end)))
        set(end, rounded(at(end) + rounded(std::abs(at(end)) * share)));
  }

  std::int64_t length() const { return std::ssize(text_.tokens); }

 private:
  static std::size_t index(std::int64_t token) { return static_cast<std::size_t>(token); }
  double at(std::int64_t token) const { return logits_.at(index(token)); }
  void set(std::int64_t token, double logit) { logits_.at(index(token)) = logit; }
  double rounded(double value) const { return in_fp32_ ? static_cast<float>(value) : value; }

  /// Whether all but the last of `sequence` are the text's last ones.
  bool may_complete(TokenSpan sequence) const {
    return ends_with(text_.tokens, sequence.first(sequence.size() - 1));
  }

  std::vector<double> logits_;
  const OpenText& text_;
  bool in_fp32_;
};

void check_factor(const std::string& name, double value) {
  if (value > 0 && std::isfinite(value)) return;
  throw usage_error("generate", "a finite " + name + " above 0", std::to_string(value),
                    "1.1, or 1 for none");
}

void check_least(const std::string& name, std::int64_t value) {
  if (value >= 0) return;
  throw usage_error("generate", name + " of at least 0", std::to_string(value), "0 for none");
}

void check_tokens(const std::string& name, TokenSpan tokens, std::int64_t vocab) {
  for (const std::int64_t token : tokens)
    if (token < 0 || token >= vocab)
      throw usage_error("generate", name + " of token ids in [0, " + std::to_string(vocab) + ')',
                        std::to_string(token), "tokens that the model has");
}

void check_sequence(const std::string& name, TokenSpan tokens, std::int64_t vocab) {
  if (tokens.empty())
    throw usage_error("generate", name + " of at least one token", "an empty one",
                      "leaving it out");
  check_tokens(name, tokens, vocab);
}

}  // namespace

void check_rules(const LogitRules& rules, std::int64_t vocab) {
  check_factor("repetition_penalty", rules.repetition_penalty);
  check_factor("encoder_repetition_penalty", rules.prompt_penalty);
  check_least("no_repeat_ngram_size", rules.no_repeat_ngram);
  check_least("encoder_no_repeat_ngram_size", rules.no_prompt_ngram);
  check_least("min_length", rules.min_length);
  check_least("min_new_tokens", rules.min_new_tokens);
  for (const SequenceBias& one : rules.sequence_bias) {
    check_sequence("sequence_bias", one.tokens, vocab);
    if (!std::isfinite(one.bias))
      throw usage_error("generate", "a finite sequence_bias", std::to_string(one.bias),
                        "bad_words_ids, which rules a sequence out");
  }
  for (const std::vector<std::int64_t>& word : rules.bad_words)
    check_sequence("bad_words_ids", word, vocab);
  if (rules.forced_begin) check_tokens("forced_bos_token_id", {&*rules.forced_begin, 1}, vocab);
  check_tokens("forced_eos_token_id", rules.forced_end, vocab);
  if (rules.end_growth)
    check_factor("factor of exponential_decay_length_penalty", rules.end_growth->factor);
}

std::vector<double> ruled_logits(std::vector<double> logits, const LogitRules& rules,
                                 const OpenText& text, bool in_fp32) {
  RuledLogits ruled(std::move(logits), text, in_fp32);
  const std::int64_t length = ruled.length();
  const TokenSpan prompt = text.tokens.first(static_cast<std::size_t>(text.given));
  ruled.add(rules.sequence_bias);
  ruled.penalise(prompt, 1 / rules.prompt_penalty);
  ruled.penalise(text.tokens, rules.repetition_penalty);
  ruled.forbid_ngrams_of(text.tokens, rules.no_repeat_ngram);
  ruled.forbid_ngrams_of(prompt, rules.no_prompt_ngram);
  ruled.forbid_words(rules.bad_words);
  if (length < rules.min_length || length - text.given < rules.min_new_tokens)
    ruled.forbid(text.ends);
  if (rules.forced_begin && length == 1) ruled.force({&*rules.forced_begin, 1});
  if (!rules.forced_end.empty() && length == text.most - 1) ruled.force(rules.forced_end);
  if (rules.end_growth) ruled.grow_ends(*rules.end_growth);
  ruled.forbid(rules.suppressed);
  const bool is_begun_by_force = rules.forced_begin && text.given == 1;
  if (length == text.given + (is_begun_by_force ? 1 : 0)) ruled.forbid(rules.suppressed_first);
  return ruled.take();
}

}  // namespace accrue::models
