#include "models/generation/sampling.h"

#include <cmath>
#include <random>

#include "models/generation/generate.h"
#include "models/support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using ::testing::HasSubstr;
using Drawn = std::vector<std::int64_t>;

std::vector<std::int64_t> ids_of(const std::vector<Choice>& choices) {
  std::vector<std::int64_t> ids;
  for (const Choice& choice : choices) ids.push_back(choice.id);
  return ids;
}

const at::Tensor of_shares(const std::vector<double>& shares) {
  return at::tensor(shares, at::kDouble).log();
}

TEST(Sampling, TakesTheFewestTokensThatHaveTheShare) {
  const at::Tensor logits = of_shares({0.1, 0.4, 0.2, 0.3});
  const auto nucleus = [&](double p) { return ids_of(choices(logits, {}, {.top_p = p})); };
  EXPECT_EQ(nucleus(0.01), (Drawn{1}));
  EXPECT_EQ(nucleus(0.39), (Drawn{1}));
  EXPECT_EQ(nucleus(0.41), (Drawn{1, 3}));
  EXPECT_EQ(nucleus(0.69), (Drawn{1, 3}));
  EXPECT_EQ(nucleus(0.71), (Drawn{1, 3, 2}));
  EXPECT_EQ(nucleus(1), (Drawn{1, 3, 2, 0}));
  const std::vector<Choice> two = choices(logits, {}, {.top_p = 0.5});
  EXPECT_NEAR(two[0].probability, 0.4 / 0.7, 1e-12);
  EXPECT_NEAR(two[1].probability, 0.3 / 0.7, 1e-12);
}

TEST(Sampling, FiltersActInTheirOrder) {
  const at::Tensor logits = of_shares({0.1, 0.4, 0.2, 0.3});
  // The three likeliest have 4/9, 3/9 and 2/9 among themselves; without top_k the same share takes
  // three.
  EXPECT_EQ(ids_of(choices(logits, {}, {.top_k = 3, .top_p = 0.75})), (Drawn{1, 3}));
  EXPECT_EQ(ids_of(choices(logits, {}, {.top_p = 0.75})), (Drawn{1, 3, 2}));
  // Squares of the shares: 16, 9, 4, 1 of 30.
  EXPECT_EQ(ids_of(choices(logits, {}, {.temperature = 0.5, .top_p = 0.5})), (Drawn{1}));
}

TEST(Sampling, PenalisesTokensOfTheTextOnce) {
  const at::Tensor logits = at::tensor({2.0, -1.0, 1.5, 0.5}, at::kDouble);
  const Drawn text{0, 1, 0, 0};
  const OpenText behind{.tokens = text};
  const std::vector<Choice> all = choices(logits, behind, {.rules = {.repetition_penalty = 2}});
  // 1, -2, 1.5, 0.5
  EXPECT_EQ(ids_of(all), (Drawn{2, 0, 3, 1}));
  EXPECT_NEAR(all[1].probability / all[3].probability, std::exp(3.0), 1e-9);
  EXPECT_EQ(draw_token(logits, behind, {.rules = {.repetition_penalty = 2}, .temperature = 0}, 0),
            2);
  EXPECT_EQ(draw_token(logits, behind, {.temperature = 0}, 0), 0);
}

TEST(Sampling, OfEquallyLikelyTokensTheLowestIdComesFirst) {
  const at::Tensor logits = at::zeros({6}, at::kDouble);
  EXPECT_EQ(ids_of(choices(logits, {}, {.top_k = 2})), (Drawn{0, 1}));
  EXPECT_EQ(draw_token(logits, {}, {.temperature = 0}, 0.9), 0);
}

TEST(Sampling, DrawsWhatTheChoicesDivide) {
  const at::Tensor logits = at::randn({50}, at::kDouble) * 2;
  for (const SamplingOptions& options :
       {SamplingOptions{},
        {.temperature = 0.6},
        {.top_k = 7},
        {.top_p = 0.8},
        {.rules = {.repetition_penalty = 1.2}, .temperature = 1.3, .top_k = 20, .top_p = 0.9},
        {.rules = {.suppressed = {1, 7}}, .top_k = 49}}) {
    const Drawn tokens{1, 2, 3, 4, 5, 6};
    const OpenText text{.tokens = tokens};
    const std::vector<Choice> all = choices(logits, text, options);
    double sum = 0;
    for (const Choice& choice : all) {
      EXPECT_EQ(draw_token(logits, text, options, sum + choice.probability / 2), choice.id);
      sum += choice.probability;
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(Sampling, RefusesOptionsOutOfRange) {
  const auto refusal = [](const SamplingOptions& options) {
    return message_of([&] { check_sampling(options, 10); });
  };
  EXPECT_THAT(refusal({.temperature = -1}), HasSubstr("temperature"));
  EXPECT_THAT(refusal({.temperature = INFINITY}), HasSubstr("temperature"));
  EXPECT_THAT(refusal({.top_k = -1}), HasSubstr("top_k"));
  for (const double p : {0.0, -0.5, 1.01, std::nan("")})
    EXPECT_THAT(refusal({.top_p = p}), HasSubstr("top_p"));
  for (const double penalty : {0.0, -1.0, std::nan(""), HUGE_VAL})
    EXPECT_THAT(refusal({.rules = {.repetition_penalty = penalty}}),
                HasSubstr("repetition_penalty"));
}

TEST(Sampling, DrawsNothingThatTheRulesLeaveOut) {
  const at::Tensor logits = at::tensor({3.0, 2.0, 1.0}, at::kDouble);
  const SamplingOptions two{.rules = {.suppressed = {0}}};
  EXPECT_EQ(ids_of(choices(logits, {}, two)), (Drawn{1, 2}));
  EXPECT_EQ(draw_token(logits, {}, two, 0.999999), 2);
  SamplingOptions none{.rules = {.suppressed = {0, 1, 2}}};
  EXPECT_THAT(message_of([&] { draw_token(logits, {}, none, 0.5); }), HasSubstr("rules"));
  none.temperature = 0;
  EXPECT_EQ(draw_token(logits, {}, none, 0.5), 0) << "the first of equal ones, as torch's argmax";
}

TEST(GenerationEnds, BeforeAnEndTokenOrAfterTheLastToken) {
  Gpt2 model(small(Compute::fp32));
  const Drawn all = generate(model, {1}, {.max_tokens = 30, .seed = 4});
  const std::int64_t end = all[6];
  const auto first = std::find(all.begin() + 1, all.end(), end);
  Decoding decoding(model);
  Generation generation(decoding, {1}, {.max_tokens = 30, .seed = 4, .end_tokens = {99, end}});
  while (generation.next()) {
  }
  EXPECT_EQ(generation.tokens(), Drawn(all.begin(), first));
  EXPECT_TRUE(generation.has_ended());
  EXPECT_EQ(generation.next(), std::nullopt);

  Generation short_one(decoding, {1}, {.max_tokens = 2, .seed = 4});
  while (short_one.next()) {
  }
  EXPECT_EQ(short_one.tokens().size(), 3U);
  EXPECT_FALSE(short_one.has_ended());
}

}  // namespace
}  // namespace accrue::models
