#include "models/generation/logit_rules.h"

#include <cmath>

#include "models/support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Logits = std::vector<double>;
using RuleTokens = std::vector<std::int64_t>;

constexpr double ruled_out = -INFINITY;
const Logits plain_logits{1.0, -1.0, 2.0, 0.5};

Logits ruled(const LogitRules& rules, const RuleTokens& tokens, std::int64_t given = 0,
             const RuleTokens& ends = {}) {
  return ruled_logits(plain_logits, rules, {.tokens = tokens, .given = given, .ends = ends},
                      /*in_fp32=*/false);
}

TEST(LogitRules, ThatStateNothingChangeNothing) { EXPECT_EQ(ruled({}, {0, 1, 2}), plain_logits); }

TEST(LogitRules, NoNgramOccursTwice) {
  // After 0 1 2 0 1 the 2 would complete a second "0 1 2".
  EXPECT_THAT(ruled({.no_repeat_ngram = 3}, {0, 1, 2, 0, 1}), ElementsAre(1, -1, ruled_out, 0.5));
  EXPECT_EQ(ruled({.no_repeat_ngram = 3}, {0, 1, 2, 1, 1}), plain_logits);
  EXPECT_THAT(ruled({.no_repeat_ngram = 2}, {0, 1, 0, 3, 0}),
              ElementsAre(1, ruled_out, 2, ruled_out));
  EXPECT_THAT(ruled({.no_repeat_ngram = 1}, {0, 0, 2}), ElementsAre(ruled_out, -1, ruled_out, 0.5));
  EXPECT_EQ(ruled({.no_repeat_ngram = 4}, {0, 1, 2}), plain_logits) << "no four yet";
  EXPECT_EQ(ruled({.no_repeat_ngram = 2}, {3}), plain_logits);
}

TEST(LogitRules, NgramsOfThePromptCountToItsEnd) {
  const RuleTokens text{0, 1, 3, 0, 2, 0};
  EXPECT_THAT(ruled({.no_prompt_ngram = 2}, text, 2), ElementsAre(1, ruled_out, 2, 0.5));
  EXPECT_THAT(ruled({.no_prompt_ngram = 2}, text, 5), ElementsAre(1, ruled_out, ruled_out, 0.5));
  EXPECT_EQ(ruled({.no_prompt_ngram = 3}, {0, 1, 2}, 2), plain_logits);
}

TEST(LogitRules, PenaltiesActOnTokensOfTheTextAndOfThePrompt) {
  EXPECT_THAT(ruled({.repetition_penalty = 2}, {0, 1, 0}, 1), ElementsAre(0.5, -2, 2, 0.5));
  EXPECT_THAT(ruled({.prompt_penalty = 2}, {0, 1, 2}, 2), ElementsAre(2, -0.5, 2, 0.5));
}

TEST(LogitRules, BiasesAddUpWhereTheirBeginningStands) {
  const LogitRules rules{.sequence_bias = {{{2}, 0.25}, {{0, 2}, 1}, {{3, 0, 2}, -4}, {{1, 3}, 9}}};
  EXPECT_THAT(ruled(rules, {1, 0}), ElementsAre(1, -1, 3.25, 0.5));
  EXPECT_THAT(ruled(rules, {3, 0}), ElementsAre(1, -1, -0.75, 0.5));
  EXPECT_THAT(ruled(rules, {0}), ElementsAre(1, -1, 3.25, 0.5)) << "longer ones do not fit";
}

TEST(LogitRules, BadWordsDoNotOccurUnlessTheyEndTheText) {
  const LogitRules rules{.bad_words = {{0}, {3, 2}}};
  EXPECT_THAT(ruled(rules, {1, 3}), ElementsAre(ruled_out, -1, ruled_out, 0.5));
  EXPECT_THAT(ruled(rules, {3, 1}, 0, {0}), ElementsAre(1, -1, 2, 0.5));
}

TEST(LogitRules, ATextEndsNoSoonerThanItMay) {
  const RuleTokens text{2, 2, 2}, ends{0, 3, 77};
  EXPECT_THAT(ruled({.min_length = 4}, text, 1, ends), ElementsAre(ruled_out, -1, 2, ruled_out));
  EXPECT_EQ(ruled({.min_length = 3}, text, 1, ends), plain_logits);
  EXPECT_THAT(ruled({.min_new_tokens = 3}, text, 1, ends),
              ElementsAre(ruled_out, -1, 2, ruled_out));
  EXPECT_EQ(ruled({.min_new_tokens = 2}, text, 1, ends), plain_logits);
}

TEST(LogitRules, EndsBecomeLikelierTheLongerItGetsFromAPlaceOn) {
  const LogitRules rules{.end_growth = EndGrowth{.start = 1, .factor = 3}};
  EXPECT_EQ(ruled(rules, {2, 2}, 1, {1}), plain_logits);
  EXPECT_THAT(ruled(rules, {2, 2, 2}, 1, {1}), ElementsAre(1, -1 + 1 * (3 - 1), 2, 0.5));
  EXPECT_THAT(ruled(rules, {2, 2, 2, 2}, 1, {0, 0}), ElementsAre(1 + (9 - 1), -1, 2, 0.5));
}

TEST(LogitRules, AFirstAndALastTokenMayBeForced) {
  const LogitRules begin{.forced_begin = 1};
  EXPECT_THAT(ruled(begin, {3}, 1), ElementsAre(ruled_out, 0, ruled_out, ruled_out));
  EXPECT_EQ(ruled(begin, {3, 3}, 2), plain_logits) << "a prompt of two tokens has begun";
  const LogitRules end{.forced_end = {0, 3}};
  const RuleTokens text{1, 1, 1};
  const auto with_most = [&](std::int64_t most) {
    return ruled_logits(plain_logits, end, {.tokens = text, .given = 1, .most = most}, false);
  };
  EXPECT_THAT(with_most(4), ElementsAre(0, ruled_out, ruled_out, 0));
  EXPECT_EQ(with_most(5), plain_logits);
}

TEST(LogitRules, TokensMayBeLeftOutAlwaysOrAtFirst) {
  EXPECT_THAT(ruled({.suppressed = {2, 99, -1}}, {1, 1}, 1), ElementsAre(1, -1, ruled_out, 0.5));
  EXPECT_THAT(ruled({.suppressed_first = {2}}, {1}, 1), ElementsAre(1, -1, ruled_out, 0.5));
  EXPECT_EQ(ruled({.suppressed_first = {2}}, {1, 1}, 1), plain_logits);
  const LogitRules forced{.forced_begin = 1, .suppressed_first = {2}};
  EXPECT_THAT(ruled(forced, {3, 1}, 1), ElementsAre(1, -1, ruled_out, 0.5))
      << "the second is the first";
}

TEST(LogitRules, AreRoundedAsTransformersRoundsThem) {
  const float logit = 1.1F, penalty = 1.3F;
  const RuleTokens text{0};
  const Logits ours = ruled_logits({logit}, {.repetition_penalty = 1.3}, {.tokens = text}, true);
  EXPECT_EQ(ours.at(0), static_cast<double>(logit / penalty));
  EXPECT_NE(ours.at(0), static_cast<double>(logit) / 1.3) << "the control";
}

TEST(LogitRules, OutOfRangeAreRefusedByTheirNames) {
  const auto refusal = [](const LogitRules& rules) {
    return message_of([&] { check_rules(rules, 4); });
  };
  EXPECT_THAT(refusal({.repetition_penalty = 0}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(refusal({.prompt_penalty = NAN}), HasSubstr("encoder_repetition_penalty"));
  EXPECT_THAT(refusal({.no_repeat_ngram = -1}), HasSubstr("no_repeat_ngram_size"));
  EXPECT_THAT(refusal({.no_prompt_ngram = -1}), HasSubstr("encoder_no_repeat_ngram_size"));
  EXPECT_THAT(refusal({.sequence_bias = {{{4}, 1}}}), HasSubstr("[0, 4)"));
  EXPECT_THAT(refusal({.sequence_bias = {{{}, 1}}}), HasSubstr("sequence_bias"));
  EXPECT_THAT(refusal({.sequence_bias = {{{1}, INFINITY}}}), HasSubstr("bad_words_ids"));
  EXPECT_THAT(refusal({.bad_words = {{}}}), HasSubstr("bad_words_ids"));
  EXPECT_THAT(refusal({.forced_begin = 4}), HasSubstr("forced_bos_token_id"));
  EXPECT_THAT(refusal({.forced_end = {0, -1}}), HasSubstr("forced_eos_token_id"));
  EXPECT_THAT(refusal({.end_growth = EndGrowth{.start = 1, .factor = -1}}),
              HasSubstr("exponential_decay_length_penalty"));
  check_rules({}, 4);
}

}  // namespace
}  // namespace accrue::models
