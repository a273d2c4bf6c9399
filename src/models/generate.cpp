#include "models/generate.h"

#include <cmath>

#include "accrue/core/error.h"
#include "core/rng.h"
#include "models/layers/parameter_builder.h"

namespace accrue::models {
namespace {

struct Candidate {
  std::int64_t id;
  double logit;
};

void check(const LanguageModel& model, const std::vector<std::int64_t>& prompt,
           const GenerateOptions& options) {
  const std::string operation = "generate";
  if (prompt.empty())
    throw usage_error(operation, "a prompt", "an empty one", "at least one token");
  for (const std::int64_t id : prompt)
    if (id < 0 || id >= model.vocab())
      throw usage_error(operation, "token ids in [0, " + std::to_string(model.vocab()) + ')',
                        std::to_string(id), "a prompt in the model's vocabulary");
  if (options.max_tokens < 0)
    throw usage_error(operation, "max_tokens of at least 0", std::to_string(options.max_tokens),
                      "256");
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    throw usage_error(operation, "a finite temperature of at least 0",
                      std::to_string(options.temperature), "0.8, or 0 for the likeliest token");
  if (options.top_k < 0)
    throw usage_error(operation, "top_k of at least 0", std::to_string(options.top_k),
                      "0 for the whole vocabulary");
}

/// All tokens, the `count` likeliest first.
std::vector<Candidate> ranked(const at::Tensor& logits, std::int64_t count) {
  const at::Tensor values = logits.to(at::kDouble).contiguous();
  std::vector<Candidate> candidates;
  for (std::int64_t id = 0; id < values.numel(); ++id) {
    const double logit = values.const_data_ptr<double>()[id];
    if (!std::isfinite(logit))
      throw runtime_error("generate", "finite logits", std::to_string(logit),
                          "an earlier checkpoint: this model has diverged");
    candidates.push_back({id, logit});
  }
  std::partial_sort(candidates.begin(), candidates.begin() + count, candidates.end(),
                    [](const Candidate& a, const Candidate& b) {
                      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
                    });
  candidates.resize(static_cast<std::size_t>(count));
  return candidates;
}

std::int64_t draw(const std::vector<Candidate>& candidates, double temperature, double uniform) {
  std::vector<double> weights;
  double total = 0;
  for (const Candidate& candidate : candidates) {
    weights.push_back(std::exp((candidate.logit - candidates.front().logit) / temperature));
    total += weights.back();
  }
  double remaining = uniform * total;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    remaining -= weights[i];
    if (remaining < 0) return candidates[i].id;
  }
  return candidates.front().id;  // rounding left a sliver of the interval
}

}  // namespace

std::vector<std::int64_t> generate(LanguageModel& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options) {
  check(model, prompt, options);
  const std::uint64_t stream = stream_of("generate");
  const std::int64_t vocab = model.vocab();
  const std::int64_t choices =
      options.temperature == 0 ? 1 : (options.top_k == 0 ? vocab : std::min(options.top_k, vocab));
  std::vector<std::int64_t> tokens = std::move(prompt);
  for (std::int64_t i = 0; i < options.max_tokens; ++i) {
    const auto length = std::min(static_cast<std::int64_t>(tokens.size()), model.context());
    const at::Tensor ids =
        at::from_blob(tokens.data() + (static_cast<std::int64_t>(tokens.size()) - length),
                      {1, length}, at::TensorOptions().dtype(at::kLong));
    const std::vector<Candidate> candidates = ranked(model.next_token_logits(ids), choices);
    const double uniform = random_unit(options.seed, stream, static_cast<std::uint64_t>(i));
    tokens.push_back(choices == 1 ? candidates.front().id
                                  : draw(candidates, options.temperature, uniform));
  }
  return tokens;
}

}  // namespace accrue::models
