#include "models/generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "accrue/core/error.h"

namespace accrue::models {
namespace {

struct Candidate {
  std::int64_t id;
  double logit;
};

bool is_likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}
bool is_less_likely(const Candidate& a, const Candidate& b) { return is_likelier(b, a); }

std::vector<double> finite_logits(const at::Tensor& logits) {
  const at::Tensor values = logits.to(at::kDouble).contiguous();
  const double* from = values.const_data_ptr<double>();
  std::vector<double> finite(from, from + values.numel());
  for (const double logit : finite)
    if (!std::isfinite(logit))
      throw runtime_error("generate", "finite logits", std::to_string(logit),
                          "an earlier checkpoint: this model has diverged");
  return finite;
}

/// The tokens that the rules allow. If they allow none, the likeliest is token 0, the first of
/// equal logits, and there is nothing to draw.
std::vector<Candidate> candidates_of(const at::Tensor& logits, const OpenText& text,
                                     const SamplingOptions& options) {
  const bool in_fp32 = logits.scalar_type() != at::kDouble;
  const std::vector<double> ruled =
      ruled_logits(finite_logits(logits), options.rules, text, in_fp32);
  std::vector<Candidate> candidates;
  candidates.reserve(ruled.size());
  for (std::size_t id = 0; id < ruled.size(); ++id)
    if (ruled[id] > -INFINITY) candidates.push_back({static_cast<std::int64_t>(id), ruled[id]});
  if (!candidates.empty()) return candidates;
  if (options.temperature > 0)
    throw usage_error("generate", "a token that may follow", "none that the rules leave",
                      "other rules: fewer tokens or sequences that are ruled out");
  return {{0, 0}};
}

/// Tokens by their likelihood, of which only the requested ones are sorted.
class Ranking {
 public:
  /// `temperature` is greater than 0.
  Ranking(std::vector<Candidate> candidates, double temperature, std::int64_t top_k)
      : rest_(std::move(candidates)), temperature_(temperature) {
    const auto kept = static_cast<std::size_t>(top_k);
    if (top_k > 0 && kept < rest_.size()) {
      const auto end = rest_.begin() + top_k;
      std::nth_element(rest_.begin(), end, rest_.end(), is_likelier);
      rest_.erase(end, rest_.end());
    }
    std::make_heap(rest_.begin(), rest_.end(), is_less_likely);
    top_ = rest_.front().logit;
    for (const Candidate& candidate : rest_) total_ += weight(candidate);
  }

  bool is_empty() const { return rest_.empty(); }
  /// The sum of all weights.
  double total() const { return total_; }

  /// The likeliest remaining token, with its weight.
  Choice take() {
    std::pop_heap(rest_.begin(), rest_.end(), is_less_likely);
    const Candidate taken = rest_.back();
    rest_.pop_back();
    return {taken.id, weight(taken)};
  }

 private:
  double weight(const Candidate& candidate) const {
    return std::exp((candidate.logit - top_) / temperature_);
  }

  std::vector<Candidate> rest_;  ///< a heap
  double temperature_;
  double top_ = 0, total_ = 0;
};

/// The fewest of the likeliest tokens whose weights sum to at least `least`.
std::vector<Choice> nucleus(Ranking& ranking, double least) {
  std::vector<Choice> taken;
  for (double mass = 0; !ranking.is_empty() && (taken.empty() || mass < least);) {
    taken.push_back(ranking.take());
    mass += taken.back().probability;
  }
  return taken;
}

double sum_of(const std::vector<Choice>& choices) {
  double sum = 0;
  for (const Choice& choice : choices) sum += choice.probability;
  return sum;
}

std::int64_t likeliest(const std::vector<Candidate>& candidates) {
  return std::min_element(candidates.begin(), candidates.end(), is_likelier)->id;
}

/// The choice at `uniform` if their weights divide an interval.
std::int64_t at_place(double uniform, const std::vector<Choice>& choices) {
  double remaining = uniform * sum_of(choices);
  for (const Choice& choice : choices) {
    remaining -= choice.probability;
    if (remaining < 0) return choice.id;
  }
  return choices.front().id;  // rounding left a small rest of the interval
}

}  // namespace

void check_sampling(const SamplingOptions& options, std::int64_t vocab) {
  const std::string operation = "generate";
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    throw usage_error(operation, "a finite temperature of at least 0",
                      std::to_string(options.temperature), "0.8, or 0 for the likeliest token");
  if (options.top_k < 0)
    throw usage_error(operation, "top_k of at least 0", std::to_string(options.top_k),
                      "0 for the whole vocabulary");
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw usage_error(operation, "top_p above 0 and at most 1", std::to_string(options.top_p),
                      "0.95, or 1 for the whole vocabulary");
  check_rules(options.rules, vocab);
}

std::vector<Choice> choices(const at::Tensor& logits, const OpenText& text,
                            const SamplingOptions& options) {
  std::vector<Candidate> candidates = candidates_of(logits, text, options);
  if (options.temperature == 0) return {{likeliest(candidates), 1}};
  Ranking ranking(std::move(candidates), options.temperature, options.top_k);
  // If all tokens are requested, rounding of the sum must not leave the last one out.
  const double least = options.top_p == 1 ? INFINITY : options.top_p * ranking.total();
  std::vector<Choice> taken = nucleus(ranking, least);
  const double total = sum_of(taken);
  for (Choice& choice : taken) choice.probability /= total;
  return taken;
}

std::int64_t draw_token(const at::Tensor& logits, const OpenText& text,
                        const SamplingOptions& options, double uniform) {
  std::vector<Candidate> candidates = candidates_of(logits, text, options);
  if (options.temperature == 0) return likeliest(candidates);
  Ranking ranking(std::move(candidates), options.temperature, options.top_k);
  if (options.top_p < 1)
    return at_place(uniform, nucleus(ranking, options.top_p * ranking.total()));
  double remaining = uniform * ranking.total();
  const Choice first = ranking.take();
  for (Choice next = first;; next = ranking.take()) {
    remaining -= next.probability;
    if (remaining < 0) return next.id;
    if (ranking.is_empty()) return first.id;  // rounding left a small rest of the interval
  }
}

}  // namespace accrue::models
