#include "data/masked_tokens.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/rng.h"
#include "data/described_by.h"
#include "data/fetch.h"
#include "data/sequence_batch.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

/// The purposes of drawn numbers: no two uses share any.
constexpr std::uint64_t of_draws = 0x4d41534b, of_evaluation = 0x4d41534c;

/// How a chosen token is replaced: shares of 1.
constexpr double shown_as_mask = 0.8, shown_as_another = 0.1;

constexpr std::uint32_t low_half(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t high_half(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}
constexpr double unit(std::uint32_t word) { return word * 0x1p-32; }

/// One of [0, vocab) except the mask, all equally likely.
std::int64_t another_token(double drawn, const TokenMasking& masking) {
  const bool has_mask = masking.mask_token >= 0 && masking.mask_token < masking.vocab;
  const std::int64_t count = masking.vocab - (has_mask ? 1 : 0);
  const auto token =
      std::min(static_cast<std::int64_t>(drawn * static_cast<double>(count)), count - 1);
  return has_mask && token >= masking.mask_token ? token + 1 : token;
}

/// The choice for one position.
struct TokenChoice {
  bool is_chosen = false;
  std::int64_t shown = 0;  ///< for a chosen one, the token that the model sees
};

/// The choices for the positions of one sample.
class TokenChoices {
 public:
  static TokenChoices of_draw(std::uint64_t seed, std::int64_t draw) {
    return {of_draws, seed, draw};
  }
  static TokenChoices of_sample(std::int64_t sample) { return {of_evaluation, /*seed=*/0, sample}; }

  TokenChoice at(std::int64_t position, std::int64_t token, const TokenMasking& masking) const {
    const auto place = static_cast<std::uint64_t>(position);
    const auto drawn =
        philox({low_half(place), high_half(place), name_[2], name_[3]}, {name_[0], name_[1]});
    TokenChoice choice{.is_chosen = unit(drawn[0]) < masking.fraction &&
                                    !std::ranges::binary_search(masking.never_chosen, token),
                       .shown = token};
    const double of_action = unit(drawn[1]);
    if (of_action < shown_as_mask)
      choice.shown = masking.mask_token;
    else if (of_action < shown_as_mask + shown_as_another)
      choice.shown = another_token(unit(drawn[2]), masking);
    return choice;
  }

 private:
  /// Seed, id and position are longer than Philox's counter: all but the position name a key that
  /// Philox itself makes.
  TokenChoices(std::uint64_t use, std::uint64_t seed, std::int64_t id)
      : name_(philox({low_half(static_cast<std::uint64_t>(id)),
                      high_half(static_cast<std::uint64_t>(id)), low_half(use), high_half(use)},
                     {low_half(seed), high_half(seed)})) {}

  std::array<std::uint32_t, 4> name_;
};

/// Whether a sample is one row of tokens, whose labels are those at the same positions.
bool is_whole(const batch::MicroBatch& sample) {
  const bool has_rows = is_rows_of_tokens(sample) && sample.sequences_per_sample == 1 &&
                        sample.targets.defined() && sample.targets.scalar_type() == at::kLong &&
                        sample.targets.is_contiguous() &&
                        sample.targets.sizes() == sample.inputs.sizes();
  return has_rows && sample.targets.eq(sample.inputs)
                         .logical_or(sample.targets.eq(ignored_target))
                         .all()
                         .item<bool>();
}

void check_masking(const Source& tokens, const TokenMasking& masking) {
  constexpr const char* operation = "hide tokens";
  if (!(masking.fraction > 0 && masking.fraction <= 1))
    throw usage_error(operation, "a fraction above 0 and at most 1",
                      std::to_string(masking.fraction), "0.15");
  if (masking.mask_token < 0 || masking.vocab < 2)
    throw usage_error(operation, "a mask token of 0 or more, and a vocabulary of at least 2",
                      std::to_string(masking.mask_token) + " and " + std::to_string(masking.vocab),
                      "the id of [MASK] in the tokenizer");
  if (tokens.image_shape())
    throw usage_error(operation, "text or tokens", "images", "another loss");
  if (tokens.size() > 0 && !is_whole(fetch_one(tokens)))
    throw usage_error(operation,
                      "samples that are a row of token ids each, whose labels are the tokens at "
                      "their own places",
                      "others (pairs, columns, labels of what follows)",
                      "SourceOptions::whole for data that have such samples");
}

class MaskedTokens final : public DescribedBy {
 public:
  MaskedTokens(std::shared_ptr<const Source> tokens, TokenMasking masking)
      : DescribedBy(std::move(tokens)), masking_(std::move(masking)) {
    check_masking(source(), masking_);
  }

  std::int64_t vocab() const override {
    return source().vocab() == 0 ? 0 : std::max(source().vocab(), masking_.mask_token + 1);
  }
  std::string fingerprint() const override {
    return source().fingerprint() + ", masked " + std::to_string(masking_.fraction) + " by " +
           std::to_string(masking_.mask_token);
  }

  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    return hidden(source().fetch(indices), indices, indices, TokenChoices::of_sample);
  }
  batch::MicroBatch fetch_drawn(std::span<const std::int64_t> indices,
                                std::span<const std::int64_t> draws) const override {
    return hidden(
        source().fetch_drawn(indices, draws), indices, draws,
        [seed = masking_.seed](std::int64_t draw) { return TokenChoices::of_draw(seed, draw); });
  }

 private:
  /// `choices_of` makes the choices of sample i from ids[i].
  template <class ChoicesOf>
  batch::MicroBatch hidden(batch::MicroBatch micro, std::span<const std::int64_t> indices,
                           std::span<const std::int64_t> ids, ChoicesOf choices_of) const {
    std::vector<std::int64_t> lengths;
    for (const std::int64_t index : indices) lengths.push_back(tokens(index));
    if (micro.spans.empty() && !uniform_tokens()) micro.spans = one_a_row(lengths);
    const std::vector<SampleSpan> places = micro.spans.empty() ? one_a_row(lengths) : micro.spans;
    for (std::size_t i = 0; i < places.size(); ++i) hide(micro, places[i], choices_of(ids[i]));
    return micro;
  }

  void hide(batch::MicroBatch& micro, const SampleSpan& place, const TokenChoices& choices) const {
    const std::int64_t row = place.row * micro.inputs.size(1);
    auto* inputs = micro.inputs.mutable_data_ptr<std::int64_t>() + row;
    auto* targets = micro.targets.mutable_data_ptr<std::int64_t>() + row;
    for (std::int64_t column = place.begin; column < place.end; ++column) {
      if (targets[column] == ignored_target) continue;
      const TokenChoice choice = choices.at(column - place.begin, inputs[column], masking_);
      if (choice.is_chosen)
        inputs[column] = choice.shown;
      else
        targets[column] = ignored_target;
    }
  }

  TokenMasking masking_;
};

}  // namespace

std::unique_ptr<Source> with_masks(std::shared_ptr<const Source> tokens, TokenMasking masking) {
  return std::make_unique<MaskedTokens>(std::move(tokens), std::move(masking));
}

}  // namespace accrue::data
