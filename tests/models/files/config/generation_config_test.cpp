#include "models/files/config/generation_config.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using EndTokens = std::vector<std::int64_t>;
using Config = nlohmann::ordered_json;

GenerationConfig parsed_generation(const std::string& text) {
  return parse_generation_config(text, "g.json");
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

TEST(GenerationConfig, StatesOneSeveralOrNoEndTokens) {
  EXPECT_EQ(parsed_generation(R"({"eos_token_id": 7})").end_tokens, (EndTokens{7}));
  EXPECT_EQ(parsed_generation(R"({"eos_token_id": [7, 0, 128009]})").end_tokens,
            (EndTokens{7, 0, 128009}));
  EXPECT_EQ(parsed_generation(R"({"eos_token_id": null})").end_tokens, EndTokens{});
  EXPECT_EQ(parsed_generation("{}").end_tokens, EndTokens{});
}

TEST(GenerationConfig, ThatStatesSomethingElseIsRefusedByItsKey) {
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  for (const char* text :
       {R"({"eos_token_id": -1})", R"({"eos_token_id": 1.5})", R"({"eos_token_id": "<end>"})",
        R"({"eos_token_id": [1, [2]]})", R"({"eos_token_id": 18446744073709551615})",
        R"({"repetition_penalty": "1.2"})", R"({"no_repeat_ngram_size": 2.5})",
        R"({"no_repeat_ngram_size": true})", R"({"min_length": -3})", R"({"bad_words_ids": [3]})",
        R"({"bad_words_ids": {"3": 1}})", R"({"sequence_bias": [[[3], 1, 2]]})",
        R"({"sequence_bias": {"3": 1.5}})", R"({"sequence_bias": [[[3], "1"]]})",
        R"({"suppress_tokens": ["a"]})", R"({"exponential_decay_length_penalty": [1]})",
        R"({"exponential_decay_length_penalty": 1.1})", R"({"forced_bos_token_id": [1]})"}) {
    const std::string key = std::string(text).substr(2, std::string(text).find(':') - 3);
    EXPECT_THAT(message_of([&] { parsed_generation(text); }),
                ::testing::AllOf(HasSubstr("g.json"), HasSubstr(key)))
        << text;
  }
  for (const std::string& text : {std::string("[]"), std::string("{"), "{\"a\": " + deep + "}"})
    EXPECT_THAT(message_of([&] { parsed_generation(text); }), HasSubstr("a JSON object")) << text;
}

TEST(GenerationConfig, ComesBeforeConfigJson) {
  const TemporaryFolder folder;
  write_text(folder / "config.json", R"({"eos_token_id": 1, "repetition_penalty": 1.5})");
  EXPECT_EQ(read_generation_config(folder / "").end_tokens, (EndTokens{1}));
  EXPECT_EQ(read_generation_config(folder / "").rules.repetition_penalty, 1.5)
      << "as transformers takes it, where there is no other file";
  write_text(folder / "generation_config.json", R"({"eos_token_id": [2, 3]})");
  EXPECT_EQ(read_generation_config(folder / "").end_tokens, (EndTokens{2, 3}));
  EXPECT_EQ(read_generation_config(folder / "").rules.repetition_penalty, 1);
}

/// Sampling reads the file, and an export the text of it.
TEST(GenerationConfig, IsOneForSamplingAndExport) {
  const TemporaryFolder folder;
  write_text(folder / "config.json", R"({"eos_token_id": 1})");
  const std::pair<const char*, EndTokens> rows[] = {{"{}", {}},
                                                    {R"({"top_k": 5})", {}},
                                                    {R"({"eos_token_id": 2})", {2}},
                                                    {"{", {1}},
                                                    {"[]", {1}}};
  for (const auto& [text, ends] : rows) {
    write_text(folder / "generation_config.json", text);
    EXPECT_EQ(read_generation_config(folder / "").end_tokens, ends) << text;
    EXPECT_EQ(stated_special_tokens(Config::parse(generation_config_text(folder / ""))).ends, ends)
        << text;
  }
}

TEST(GenerationConfig, StatesRules) {
  const LogitRules rules = parsed_generation(R"({
    "repetition_penalty": 2, "encoder_repetition_penalty": 0.5, "no_repeat_ngram_size": 3,
    "encoder_no_repeat_ngram_size": 4, "bad_words_ids": [[1], [2, 3]], "min_length": 5,
    "forced_bos_token_id": 6, "forced_eos_token_id": 7, "suppress_tokens": [8, 9],
    "begin_suppress_tokens": [10], "exponential_decay_length_penalty": [11, 1.5],
    "sequence_bias": [[[1, 2], 0.5], [[3], -1], [[1, 2], 4.5]], "temperature": "unread"})")
                               .rules;
  EXPECT_EQ(rules.repetition_penalty, 2);
  EXPECT_EQ(rules.prompt_penalty, 0.5);
  EXPECT_EQ(rules.no_repeat_ngram, 3);
  EXPECT_EQ(rules.no_prompt_ngram, 4);
  EXPECT_THAT(rules.bad_words, ElementsAre(EndTokens{1}, EndTokens{2, 3}));
  EXPECT_EQ(rules.min_length, 5);
  EXPECT_EQ(rules.forced_begin, 6);
  EXPECT_THAT(rules.forced_end, ElementsAre(7));
  EXPECT_THAT(rules.suppressed, ElementsAre(8, 9));
  EXPECT_THAT(rules.suppressed_first, ElementsAre(10));
  ASSERT_TRUE(rules.end_growth.has_value());
  EXPECT_EQ(rules.end_growth->start, 11);
  EXPECT_EQ(rules.end_growth->factor, 1.5);
  ASSERT_EQ(rules.sequence_bias.size(), 2u);
  EXPECT_EQ(rules.sequence_bias[0].bias, 4.5) << "of the same sequence the last";
  EXPECT_EQ(parsed_generation(R"({"min_length": 9, "min_new_tokens": 2})").rules.min_length, 0)
      << "min_new_tokens takes its place";
}

TEST(GenerationConfig, NamesWhatSaysOtherTexts) {
  EXPECT_THAT(parsed_generation(R"({"num_beams": 4, "stop_strings": ["."], "guidance_scale": 1.5,
                         "top_k": 5, "do_sample": true, "max_new_tokens": 9})")
                  .not_applied,
              ElementsAre("num_beams", "guidance_scale", "stop_strings"));
  EXPECT_THAT(parsed_generation(R"({"num_beams": 1, "stop_strings": null, "guidance_scale": 1,
                         "token_healing": false, "cache_implementation": "hybrid"})")
                  .not_applied,
              IsEmpty());
}

TEST(GenerationConfig, IsKeptAsItIsOrMadeOfConfigJson) {
  const TemporaryFolder folder;
  EXPECT_EQ(generation_config_text(folder / ""), "");
  write_text(folder / "config.json", R"({"vocab_size": 3, "eos_token_id": null})");
  EXPECT_EQ(generation_config_text(folder / ""), "") << "nothing is said";
  write_text(folder / "config.json", R"({"vocab_size": 3, "eos_token_id": [1, 2], "top_k": 5})");
  EXPECT_EQ(Config::parse(generation_config_text(folder / "")),
            (Config{{"eos_token_id", {1, 2}}, {"top_k", 5}}));
  write_text(folder / "generation_config.json", "{");
  EXPECT_THAT(generation_config_text(folder / ""), HasSubstr("top_k"))
      << "transformers, too, goes on with config.json";
  const std::string own = "{ \"eos_token_id\":\t4 }";
  write_text(folder / "generation_config.json", own);
  EXPECT_EQ(generation_config_text(folder / ""), own);
}

TEST(SpecialTokens, AreStatedAsTheyAreRead) {
  const auto stated = [](const char* text) { return stated_special_tokens(Config::parse(text)); };
  const SpecialTokens all = stated(R"({"bos_token_id": 1, "eos_token_id": [2, -3, 4, "a"],
                                       "pad_token_id": 0})");
  EXPECT_EQ(all.begin, 1);
  EXPECT_THAT(all.ends, ElementsAre(2, 4));
  EXPECT_EQ(all.pad, 0);
  const SpecialTokens none = stated(R"({"bos_token_id": -1, "pad_token_id": null})");
  EXPECT_FALSE(none.begin || none.pad);
  EXPECT_THAT(none.ends, IsEmpty());

  const Config config = Config::parse(R"({"eos_token_id": 9, "bos_token_id": 9, "x": 1})");
  EXPECT_EQ(with_special_tokens(config, none), config) << "what is not known stays";
  EXPECT_EQ(with_special_tokens(config, all),
            (Config{{"eos_token_id", {2, 4}}, {"bos_token_id", 1}, {"x", 1}, {"pad_token_id", 0}}));
  EXPECT_EQ(with_special_tokens(config, {.begin = {}, .pad = {}, .ends = {5}})["eos_token_id"], 5);
}

}  // namespace
}  // namespace accrue::models
