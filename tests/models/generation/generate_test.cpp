#include "models/generation/generate.h"

#include <set>

#include "models/support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using Ids = std::vector<std::int64_t>;

TEST(Generate, KeepsThePromptAndGoesBeyondTheContextWithinTheVocabulary) {
  Gpt2 model(small(Compute::fp32));
  const Ids tokens = generate(model, {3, 1, 4}, {.max_tokens = 20});
  ASSERT_EQ(tokens.size(), 23U);
  EXPECT_EQ(Ids(tokens.begin(), tokens.begin() + 3), (Ids{3, 1, 4}));
  for (const std::int64_t id : tokens) EXPECT_TRUE(id >= 0 && id < 31);
}

TEST(Generate, EqualSeedsGiveEqualTokensWhateverRanBefore) {
  Gpt2 model(small(Compute::fp32)), again(small(Compute::fp32));
  const GenerateOptions options{.max_tokens = 30, .seed = 4};
  const Ids first = generate(model, {1}, options);
  EXPECT_EQ(generate(model, {1}, options), first);
  EXPECT_EQ(generate(again, {1}, options), first);
  EXPECT_NE(generate(model, {1}, {.max_tokens = 30, .seed = 5}), first);
}

TEST(Generate, AShorterRunIsAPrefixOfALongerOne) {
  Gpt2 model(small(Compute::fp32));
  Ids longer = generate(model, {1}, {.max_tokens = 20});
  longer.resize(8);
  EXPECT_EQ(generate(model, {1}, {.max_tokens = 7}), longer);
}

TEST(Generate, TemperatureZeroAndTopOneAreTheLikeliestToken) {
  Gpt2 model(small());
  perturb(model);
  Ids expected{2};
  for (int i = 0; i < 20; ++i) {
    const auto start = std::max<std::ptrdiff_t>(0, std::ssize(expected) - model.options().context);
    const Ids window(expected.begin() + start, expected.end());
    expected.push_back(
        model.next_token_logits(at::tensor(window).unsqueeze(0)).argmax().item<std::int64_t>());
  }
  EXPECT_EQ(generate(model, {2}, {.max_tokens = 20, .temperature = 0}), expected);
  EXPECT_EQ(generate(model, {2}, {.max_tokens = 20, .top_k = 1}), expected);
}

TEST(Generate, DrawsFollowTheModelsProbabilities) {
  Gpt2 model(small());
  perturb(model);
  constexpr int draws = 2000;
  constexpr double temperature = 0.7;
  const at::Tensor expected =
      at::softmax(model.next_token_logits(at::tensor(Ids{5}).unsqueeze(0)) / temperature, -1)
          .flatten();
  std::vector<double> seen(31, 0.0);
  for (int i = 0; i < draws; ++i)
    seen[static_cast<std::size_t>(
        generate(
            model, {5},
            {.max_tokens = 1, .temperature = temperature, .seed = static_cast<std::uint64_t>(i)})
            .back())] += 1.0 / draws;
  for (std::int64_t id = 0; id < 31; ++id) {
    const double p = expected[id].item<double>();
    // Five standard deviations of a share, and one draw.
    EXPECT_NEAR(seen[static_cast<std::size_t>(id)], p, 5 * std::sqrt(p / draws) + 1.0 / draws);
  }
}

TEST(Generate, TopKLimitsTheChoice) {
  Gpt2 model(small());
  std::set<std::int64_t> chosen;
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    chosen.insert(generate(model, {5}, {.max_tokens = 1, .top_k = 3, .seed = seed}).back());
  EXPECT_EQ(chosen.size(), 3U);
}

TEST(Generate, RefusesWhatMakesNoSense) {
  Gpt2 model(small());
  using ::testing::HasSubstr;
  const auto message = [&](const Ids& prompt, const GenerateOptions& options) {
    return message_of([&] { generate(model, prompt, options); });
  };
  EXPECT_THAT(message({}, {}), HasSubstr("prompt"));
  EXPECT_THAT(message({31}, {}), HasSubstr("[0, 31)"));
  EXPECT_THAT(message({-1}, {}), HasSubstr("[0, 31)"));
  EXPECT_THAT(message({1}, {.max_tokens = -1}), HasSubstr("max_tokens"));
  EXPECT_THAT(message({1}, {.temperature = -1}), HasSubstr("temperature"));
  EXPECT_THAT(message({1}, {.temperature = NAN}), HasSubstr("temperature"));
  EXPECT_THAT(message({1}, {.top_k = -1}), HasSubstr("top_k"));
}

TEST(Generate, SaysThatTheModelHasDiverged) {
  Gpt2 model(small());
  {
    const at::NoGradGuard no_grad;
    model.parameters().front().tensor.fill_(NAN);
  }
  EXPECT_THAT(message_of([&] { generate(model, {1}, {}); }, 1), ::testing::HasSubstr("diverged"));
}

}  // namespace
}  // namespace accrue::models
