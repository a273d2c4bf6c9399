#include "models/generation/generate.h"

#include <algorithm>

#include "accrue/core/error.h"
#include "core/rng.h"
#include "models/layers/parameter_builder.h"

namespace accrue::models {
namespace {

void check_prompt(const LanguageModel& model, const std::vector<std::int64_t>& prompt) {
  if (prompt.empty())
    throw usage_error("generate", "a prompt", "an empty one", "at least one token");
  for (const std::int64_t id : prompt)
    if (id < 0 || id >= model.vocab())
      throw usage_error("generate", "token ids in [0, " + std::to_string(model.vocab()) + ')',
                        std::to_string(id), "a prompt in the model's vocabulary");
}

SamplingOptions sampling_of(const GenerateOptions& options) {
  return {.rules = options.rules,
          .temperature = options.temperature,
          .top_k = options.top_k,
          .top_p = options.top_p};
}

}  // namespace

Generation::Generation(Decoding& decoding, std::vector<std::int64_t> prompt,
                       const GenerateOptions& options)
    : decoding_(decoding),
      tokens_(std::move(prompt)),
      options_(options),
      sampling_(sampling_of(options)),
      given_(std::ssize(tokens_)) {
  check_prompt(decoding.model(), tokens_);
  if (options.max_tokens < 0)
    throw usage_error("generate", "max_tokens of at least 0", std::to_string(options.max_tokens),
                      "256");
  check_sampling(sampling_, decoding.model().vocab());
}

OpenText Generation::open_text() const {
  return {.tokens = tokens_,
          .given = given_,
          .most = given_ + options_.max_tokens,
          .ends = options_.end_tokens};
}

std::optional<std::int64_t> Generation::next() {
  if (has_ended_ || drawn_ == options_.max_tokens) return std::nullopt;
  const at::Tensor logits = decoding_.next_logits(tokens_);
  const double uniform =
      random_unit(options_.seed, stream_of("generate"), static_cast<std::uint64_t>(drawn_));
  const std::int64_t token = draw_token(logits, open_text(), sampling_, uniform);
  ++drawn_;
  const std::vector<std::int64_t>& ends = options_.end_tokens;
  has_ended_ = std::find(ends.begin(), ends.end(), token) != ends.end();
  if (has_ended_) return std::nullopt;
  tokens_.push_back(token);
  return token;
}

std::vector<std::int64_t> generate(LanguageModel& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options) {
  Decoding decoding(model);
  Generation generation(decoding, std::move(prompt), options);
  while (generation.next()) {
  }
  return generation.tokens();
}

}  // namespace accrue::models
