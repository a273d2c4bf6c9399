// The result of all files of a tokenizer's folder, as far as no other program is needed to check
// it; tokenizer_folder_golden.py compares ids with transformers' own. The planted tokenizer has 262
// tokens: the first one that is added has id 262.
#include "data/tokenizer/folder/folder_tokens.h"

#include <gmock/gmock.h>

#include <map>
#include <utility>

#include "accrue/data/tokenizer.h"
#include "data/folder.h"
#include "data/planted_tokenizers.h"
#include "data/refusal.h"

namespace accrue::data {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Files = std::map<std::string, std::string>;
using Ids = std::vector<std::int64_t>;

/// A folder with the planted tokenizer and other files.
class TokenizerFolder {
 public:
  explicit TokenizerFolder(const Files& beside = {}, const json& tokenizer = planted_gpt2()) {
    folder_.write("tokenizer.json", tokenizer.dump());
    for (const auto& [name, content] : beside) folder_.write(name, content);
  }

  std::string file() const { return folder_.path("tokenizer.json"); }
  FolderTokens read() const { return read_folder_tokens(file(), "data.tokenizer"); }
  std::shared_ptr<const Tokenizer> open() const {
    return Tokenizer::open(file(), "data.tokenizer");
  }
  std::string refused() const {
    return refusal(Error::Kind::usage, [&] { open(); });
  }
  const Folder& folder() const { return folder_; }

 private:
  Folder folder_;
};

/// The planted tokenizer with one more value.
json planted_with(const char* place, json value) {
  json tokenizer = planted_gpt2();
  tokenizer[json::json_pointer(place)] = std::move(value);
  return tokenizer;
}

json special_token(std::int64_t id, const std::string& text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

struct Merged {
  const char* name;
  Files beside;
  std::optional<std::string> eos;                         ///< none: there is none
  std::vector<std::pair<std::string, std::int64_t>> ids;  ///< of added tokens, all of them
};

const std::vector<Merged>& merged_rows() {
  static const std::vector<Merged> rows{
      {"nothing beside", {}, std::nullopt, {}},
      {"settings", {{"tokenizer_config.json", R"({"eos_token": "<e>"})"}}, "<e>", {{"<e>", 262}}},
      {"settings, a marked object",
       {{"tokenizer_config.json", R"({"eos_token": {"__type": "AddedToken", "content": "<e>"}})"}},
       "<e>",
       {{"<e>", 262}}},
      {"settings, null", {{"tokenizer_config.json", R"({"eos_token": null})"}}, std::nullopt, {}},
      {"settings, twice",
       {{"tokenizer_config.json", R"({"eos_token": "<e>", "eos_token": "<f>"})"}},
       "<f>",
       {{"<f>", 262}}},
      {"settings, empty", {{"tokenizer_config.json", R"({"eos_token": ""})"}}, "", {}},
      {"a token of the vocabulary",
       {{"tokenizer_config.json", R"({"eos_token": "ab"})"}},
       "ab",
       {{"ab", 256}}},
      {"map", {{"special_tokens_map.json", R"({"eos_token": "<e>"})"}}, "<e>", {{"<e>", 262}}},
      {"map, an object",
       {{"special_tokens_map.json", R"({"eos_token": {"content": "<e>", "lstrip": true}})"}},
       "<e>",
       {{"<e>", 262}}},
      {"map before settings",
       {{"special_tokens_map.json", R"({"eos_token": "<e>"})"},
        {"tokenizer_config.json", R"({"eos_token": "<f>"})"}},
       "<e>",
       {{"<e>", 262}}},
      {"map, null before settings",
       {{"special_tokens_map.json", R"({"eos_token": null})"},
        {"tokenizer_config.json", R"({"eos_token": "<f>"})"}},
       std::nullopt,
       {}},
      {"no map beside a decoder",
       {{"special_tokens_map.json", R"({"eos_token": "<e>"})"},
        {"added_tokens.json", R"({"<a>": 3})"},
        {"tokenizer_config.json", R"({"eos_token": "<f>", "added_tokens_decoder": {}})"}},
       "<f>",
       {{"<f>", 262}}},
      {"a decoder, by its ids, which do not count",
       {{"tokenizer_config.json",
         R"({"added_tokens_decoder": {"900": {"content": "<a>"}, "20": {"content": "<b>"}}})"}},
       std::nullopt,
       {{"<b>", 262}, {"<a>", 263}}},
      {"added tokens, by their ids, which do not count",
       {{"added_tokens.json", R"({"<a>": 900, "<b>": -1, "<c>": 300})"}},
       std::nullopt,
       {{"<b>", 262}, {"<c>", 263}, {"<a>", 264}}},
      {"named tokens behind them",
       {{"added_tokens.json", R"({"<a>": 900})"},
        {"tokenizer_config.json", R"({"pad_token": "<p>", "bos_token": "<s>"})"}},
       std::nullopt,
       {{"<a>", 262}, {"<s>", 263}, {"<p>", 264}}},
      {"extra ones last",
       {{"tokenizer_config.json",
         R"({"additional_special_tokens": ["<x>", "<e>"], "eos_token": "<e>"})"}},
       "<e>",
       {{"<e>", 262}, {"<x>", 263}}},
      {"extra ones, by both names",
       {{"tokenizer_config.json",
         R"({"additional_special_tokens": ["<x>"], "extra_special_tokens": ["<y>"]})"}},
       std::nullopt,
       {{"<y>", 262}}},
      {"extra ones, by both names, the new one empty",
       {{"tokenizer_config.json",
         R"({"additional_special_tokens": ["<x>"], "extra_special_tokens": []})"}},
       std::nullopt,
       {{"<x>", 262}}},
      {"extra ones of the map",
       {{"special_tokens_map.json", R"({"additional_special_tokens": ["<x>"]})"}},
       std::nullopt,
       {{"<x>", 262}}},
      {"extra ones of the map by the old name, beside the new one",
       {{"special_tokens_map.json", R"({"additional_special_tokens": ["<x>"]})"},
        {"tokenizer_config.json", R"({"extra_special_tokens": []})"}},
       std::nullopt,
       {}},
      {"extra ones of both files",
       {{"special_tokens_map.json", R"({"extra_special_tokens": ["<x>", {"content": "<z>"}]})"},
        {"tokenizer_config.json", R"({"extra_special_tokens": ["<y>", "<x>"]})"}},
       std::nullopt,
       {{"<y>", 262}, {"<x>", 263}, {"<z>", 264}}},
      {"names of the model's own",
       {{"tokenizer_config.json",
         R"({"image_token": "<i>", "extra_special_tokens": {"video": "<v>"}, "add_x_token": true})"}},
       std::nullopt,
       {{"<i>", 262}, {"<v>", 263}}},
      {"names that are stated as such",
       {{"tokenizer_config.json", R"({"model_specific_special_tokens": {"video": "<v>"}})"}},
       std::nullopt,
       {{"<v>", 262}}},
      {"names of the map",
       {{"special_tokens_map.json", R"({"image_token": "<i>"})"}},
       std::nullopt,
       {{"<i>", 262}}},
  };
  return rows;
}

TEST(FolderTokens, AreMergedAsTransformersDoes) {
  for (const Merged& row : merged_rows()) {
    SCOPED_TRACE(row.name);
    const TokenizerFolder folder(row.beside);
    const FolderTokens read = folder.read();
    EXPECT_EQ(read.eos, row.eos);
    std::vector<std::pair<std::string, std::int64_t>> ids;
    for (const json& one : read.tokenizer["added_tokens"])
      ids.emplace_back(one["content"], one["id"]);
    EXPECT_EQ(ids, row.ids);
    const auto tokenizer = folder.open();
    for (const auto& [text, id] : row.ids) EXPECT_EQ(tokenizer->encode(text), Ids{id}) << text;
    EXPECT_EQ(tokenizer->end_of_text().has_value(), !row.eos.value_or("").empty());
    if (const auto end = tokenizer->end_of_text()) {
      EXPECT_EQ(end, tokenizer->id_of(*row.eos));
    }
  }
}

TEST(FolderTokens, OfOtherTypesAreRefusedByFileAndKey) {
  const std::vector<std::pair<Files, std::vector<std::string>>> rows{
      {{{"tokenizer_config.json", "[]"}}, {"tokenizer_config.json", "a JSON object"}},
      {{{"special_tokens_map.json", "3"}}, {"special_tokens_map.json", "a JSON object"}},
      {{{"added_tokens.json", "{"}}, {"added_tokens.json", "a JSON object"}},
      {{{"config.json", "null"}}, {"config.json", "a JSON object"}},
      {{{"generation_config.json", "{]"}}, {"generation_config.json", "a JSON object"}},
      {{{"tokenizer_config.json", R"({"eos_token": 5})"}},
       {"tokenizer_config.json", "eos_token", "5"}},
      {{{"tokenizer_config.json", R"({"eos_token": false})"}}, {"eos_token", "false"}},
      {{{"tokenizer_config.json", R"({"eos_token": ["<e>"]})"}}, {"eos_token"}},
      {{{"tokenizer_config.json", R"({"eos_token": {"content": 3}})"}}, {"eos_token.content", "3"}},
      {{{"tokenizer_config.json", R"({"eos_token": {"content": "a", "lstrip": null}})"}},
       {"eos_token.lstrip", "null"}},
      {{{"special_tokens_map.json", R"({"pad_token": 5})"}},
       {"special_tokens_map.json", "pad_token"}},
      {{{"tokenizer_config.json", R"({"added_tokens_decoder": null})"}}, {"added_tokens_decoder"}},
      {{{"tokenizer_config.json", R"({"added_tokens_decoder": {"a": {"content": "x"}}})"}},
       {"added_tokens_decoder", "ids as keys"}},
      {{{"tokenizer_config.json", R"({"added_tokens_decoder": {"1": "x"}})"}},
       {"added_tokens_decoder.1"}},
      {{{"added_tokens.json", R"({"<a>": "7"})"}}, {"added_tokens.json", "<a>"}},
      {{{"added_tokens.json", R"({"<a>": 1.5})"}}, {"added_tokens.json", "<a>"}},
      {{{"added_tokens.json", R"({"<a>": 18446744073709551615})"}}, {"added_tokens.json"}},
      {{{"tokenizer_config.json", R"({"extra_special_tokens": "<x>"})"}}, {"extra_special_tokens"}},
      {{{"tokenizer_config.json", R"({"extra_special_tokens": [7]})"}}, {"extra_special_tokens"}},
      {{{"tokenizer_config.json", R"({"extra_special_tokens": {"image": null}})"}},
       {"extra_special_tokens.image"}},
      {{{"tokenizer_config.json", R"({"model_specific_special_tokens": []})"}},
       {"model_specific_special_tokens"}},
      {{{"config.json", R"({"eos_token_id": "x"})"}}, {"config.json", "eos_token_id"}},
      {{{"tokenizer_config.json", R"({"tokenizer_class": "WhisperTokenizer"})"}},
       {"WhisperTokenizer", "PreTrainedTokenizerFast"}},
      {{{"tokenizer_config.json",
         R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": null})"}},
       {"add_prefix_space"}},
      {{{"tokenizer_config.json", R"({"fast_tokenizer_files": ["tokenizer.4.0.json"]})"}},
       {"fast_tokenizer_files"}},
  };
  for (const auto& [files, parts] : rows) {
    const std::string message = TokenizerFolder(files).refused();
    SCOPED_TRACE(files.begin()->second);
    EXPECT_THAT(message, ::testing::StartsWith("data.tokenizer: "));
    for (const std::string& part : parts) EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(FolderTokens, TakeAnIdOfTheVocabularyWhenItHasGaps) {
  json tokenizer = planted_with("/model/vocab/zz", 300);
  tokenizer["added_tokens"] = json::array({special_token(9, "<a>"), special_token(9, "zz")});
  const auto opened = TokenizerFolder({}, tokenizer).open();
  EXPECT_EQ(opened->id_of("<a>"), 263) << "as many texts as there are";
  EXPECT_EQ(opened->id_of("zz"), 300);
  EXPECT_EQ(opened->vocab(), 301);
  const auto behind =
      TokenizerFolder({{"tokenizer_config.json", R"({"eos_token": "<e>"})"}}, tokenizer).open();
  EXPECT_EQ(behind->end_of_text(), 301) << "behind the largest that was added";
  tokenizer["model"]["vocab"]["yy"] = 264;
  const auto taken = TokenizerFolder({}, tokenizer).open();
  EXPECT_EQ(taken->id_of("<a>"), 264);
  EXPECT_EQ(taken->decode(Ids{264}), "<a>") << "what was added last";
}

TEST(FolderTokens, TakeTheLastOfPropertiesThatDiffer) {
  json tokenizer = planted_gpt2();
  tokenizer["added_tokens"] = json::array({special_token(262, "<a>")});
  const auto ids = [&](const Files& beside) {
    return TokenizerFolder(beside, tokenizer).open()->encode("b <a> b");
  };
  const std::int64_t b = 'b', space = TokenizerFolder().open()->encode(" ").front();
  EXPECT_THAT(ids({}), ElementsAre(b, space, 262, space, b));
  EXPECT_THAT(ids({{"tokenizer_config.json",
                    R"({"added_tokens_decoder": {"262": {"content": "<a>", "lstrip": true}}})"}}),
              ElementsAre(b, 262, space, b));
  EXPECT_THAT(
      ids({{"tokenizer_config.json",
            R"({"eos_token": {"__type": "AddedToken", "content": "<a>", "rstrip": true}})"}}),
      ElementsAre(b, space, 262, space, b))
      << "it is added already, as tokenizer.json has it";
  const auto once_special =
      TokenizerFolder(
          {{"tokenizer_config.json", R"({"added_tokens_decoder": {"262": {"content": "<a>"}}})"}},
          tokenizer)
          .open();
  EXPECT_EQ(once_special->decode(Ids{b, 262}, true), "b") << "it stays special";
}

TEST(FolderTokens, HaveWhatTheirClassBrings) {
  const auto read = [](const Files& files) { return TokenizerFolder(files).read(); };
  const FolderTokens plain = read({{"config.json", R"({"model_type": "llama"})"}});
  EXPECT_EQ(plain.eos, std::nullopt);
  EXPECT_EQ(plain.tokenizer["pre_tokenizer"], planted_gpt2()["pre_tokenizer"]);

  const FolderTokens gpt2 = read({{"config.json", R"({"model_type": "gpt2"})"}});
  EXPECT_EQ(gpt2.eos, "<|endoftext|>");
  EXPECT_EQ(gpt2.bos, "<|endoftext|>");
  EXPECT_EQ(gpt2.pad, std::nullopt);
  EXPECT_EQ(gpt2.settings["eos_token"], "<|endoftext|>");
  EXPECT_EQ(read({{"config.json", R"({"model_type": "gpt2"})"},
                  {"tokenizer_config.json", R"({"eos_token": null})"}})
                .eos,
            std::nullopt);

  const FolderTokens qwen2 =
      read({{"tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})"}});
  EXPECT_EQ(qwen2.tokenizer["normalizer"]["type"], "NFC");
  EXPECT_EQ(qwen2.tokenizer["pre_tokenizer"]["type"], "Sequence");
  EXPECT_EQ(qwen2.pad, "<|endoftext|>");

  const FolderTokens llama = read(
      {{"tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizerFast", "legacy": true})"}});
  EXPECT_EQ(llama.tokenizer["pre_tokenizer"]["type"], "ByteLevel") << "the file names it";

  const FolderTokens gemma =
      read({{"tokenizer_config.json", R"({"tokenizer_class": "GemmaTokenizer"})"}});
  EXPECT_EQ(gemma.unk, "<unk>");
  EXPECT_EQ(gemma.tokenizer["model"]["unk_token"], "<unk>");
  EXPECT_EQ(gemma.tokenizer["model"]["byte_fallback"], true);
}

TEST(FolderTokens, HaveTheClassThatAutoTokenizerTakes) {
  const auto is_gpt2 = [](const Files& files) {
    return TokenizerFolder(files).read().unk == "<|endoftext|>";
  };
  const auto by = [&](const char* config, const char* settings) {
    Files files;
    if (*config != 0) files["config.json"] = config;
    if (*settings != 0) files["tokenizer_config.json"] = settings;
    return is_gpt2(files);
  };
  const char* const of_gpt2 = R"({"tokenizer_class": "GPT2TokenizerFast"})";
  EXPECT_TRUE(by("", of_gpt2));
  EXPECT_TRUE(by(R"({"model_type": "llama"})", of_gpt2));
  EXPECT_TRUE(by(R"({"model_type": "bert"})", of_gpt2)) << "what is named comes before the model's";
  EXPECT_TRUE(by(R"({"model_type": "gpt2"})", "")) << "the model's";
  EXPECT_TRUE(by(R"({"tokenizer_class": "GPT2Tokenizer"})", ""));
  EXPECT_TRUE(by(R"({"model_type": "gpt-sw3"})", ""));
  EXPECT_TRUE(by(R"({"model_type": "hyperclovax_vision_v2"})",
                 R"({"tokenizer_class": "PreTrainedTokenizerFast"})"))
      << "what those files name is known to be wrong";
  EXPECT_FALSE(
      by(R"({"model_type": "gpt2"})", R"({"tokenizer_class": "PreTrainedTokenizerFast"})"));
  EXPECT_FALSE(by(R"({"model_type": "mistral"})", of_gpt2))
      << "whose class takes files as they are";
  EXPECT_FALSE(by(R"({"model_type": "phi3"})", of_gpt2));
  EXPECT_FALSE(by(R"({"model_type": "gpt2"})", R"({"tokenizer_class": "NobodysTokenizer"})"));
  const std::string path = R"("_name_or_path": "DeepSeek-AI/deepseek-coder-1b")";
  EXPECT_FALSE(by(("{" + path + "}").c_str(), of_gpt2));
  EXPECT_TRUE(by((R"({"model_type": "llama", )" + path + "}").c_str(), of_gpt2));
  EXPECT_TRUE(
      by(R"({"model_type": "mistral"})",
         R"({"tokenizer_class": "GPT2Tokenizer", "auto_map": {"AutoTokenizer": ["a.B", null]}})"));
}

TEST(FolderTokens, HaveAnEndThatTheModelNames) {
  json tokenizer = planted_gpt2();
  tokenizer["added_tokens"] = json::array({special_token(262, "<e>"), special_token(263, "<f>")});
  const auto end = [&](const Files& files) {
    return TokenizerFolder(files, tokenizer).open()->end_of_text();
  };
  EXPECT_EQ(end({{"config.json", R"({"eos_token_id": 262})"}}), 262);
  EXPECT_EQ(end({{"config.json", R"({"eos_token_id": 262})"},
                 {"generation_config.json", R"({"eos_token_id": [263, 262]})"}}),
            263);
  EXPECT_EQ(end({{"config.json", R"({"eos_token_id": 262})"},
                 {"generation_config.json", R"({"eos_token_id": null})"}}),
            262);
  EXPECT_EQ(end({{"config.json", R"({"eos_token_id": 2})"}}), std::nullopt) << "an ordinary token";
  EXPECT_EQ(end({{"config.json", R"({"eos_token_id": [900, -1, 263]})"}}), 263) << "one it has";
  EXPECT_EQ(end({{"config.json", R"({"eos_token_id": 262})"},
                 {"tokenizer_config.json", R"({"eos_token": "<f>"})"}}),
            263)
      << "the tokenizer's own comes first";
}

TEST(FolderTokens, HaveThePaddingOfTheFile) {
  const json padded =
      planted_with("/padding", {{"strategy", "BatchLongest"}, {"pad_token", "<p>"}});
  EXPECT_EQ(TokenizerFolder({}, padded).read().pad, "<p>");
  EXPECT_EQ(
      TokenizerFolder({{"tokenizer_config.json", R"({"pad_token": null})"}}, padded).read().pad,
      std::nullopt);
  EXPECT_EQ(
      TokenizerFolder({{"tokenizer_config.json", R"({"pad_token": "<q>"})"}}, padded).read().pad,
      "<q>");
  EXPECT_EQ(TokenizerFolder({{"tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})"}},
                            padded)
                .read()
                .pad,
            std::nullopt)
      << "a class that has none says so";
}

TEST(FolderTokens, MayBeLeftAsText) {
  const Files names{{"tokenizer_config.json",
                     R"({"eos_token": "<e>", "split_special_tokens": true,
                         "added_tokens_decoder": {"9": {"content": "<tool>"}}})"}};
  const auto tokenizer = TokenizerFolder(names).open();
  EXPECT_THAT(tokenizer->encode("<e>"), ElementsAre('<', 'e', '>'));
  EXPECT_EQ(tokenizer->encode("<tool>").size(), 1U) << "which is not special";
  EXPECT_EQ(tokenizer->end_of_text(), tokenizer->id_of("<e>"));
}

TEST(FolderTokens, OfNoOtherFileChangeNothing) {
  const std::string before = TokenizerFolder().open()->fingerprint();
  const auto fingerprint = [](const Files& beside) {
    return TokenizerFolder(beside).open()->fingerprint();
  };
  EXPECT_EQ(fingerprint({{"config.json", R"({"model_type": "llama"})"},
                         {"tokenizer_config.json", R"({"model_max_length": 4})"}}),
            before);
  for (const Merged& row : merged_rows()) {
    if (row.ids.empty()) continue;
    EXPECT_NE(fingerprint(row.beside), before) << row.name;
  }
  EXPECT_NE(fingerprint({{"config.json", R"({"model_type": "gpt2"})"}}), before);
}

TEST(FolderTokens, AreCorrectedForMistral) {
  json tokenizer = planted_gpt2();
  for (int i = 0; i < 100'000; ++i) tokenizer["model"]["vocab"]["t" + std::to_string(i)] = 262 + i;
  const auto words = [&](const char* config, const char* settings) {
    return TokenizerFolder({{"config.json", config}, {"tokenizer_config.json", settings}},
                           tokenizer)
        .read()
        .tokenizer["pre_tokenizer"]
        .value("type", "");
  };
  const char* const asks = R"({"fix_mistral_regex": true})";
  EXPECT_EQ(words(R"({"model_type": "mistral", "transformers_version": "4.57.1"})", asks),
            "Sequence");
  EXPECT_EQ(words(R"({"model_type": "mistral", "transformers_version": "4.57.1"})", "{}"),
            "ByteLevel");
  EXPECT_EQ(words(R"({"model_type": "mistral", "transformers_version": "5.1.0"})", asks),
            "ByteLevel");
  EXPECT_EQ(words(R"({"model_type": "llama", "transformers_version": "4.57.1"})", asks),
            "ByteLevel");
}

/// Lines of JSON, and text, by a tokenizer with more tokens than the model.
TEST(FolderTokens, BeyondTheModelAreNamedWhereTheyOccur) {
  const TokenizerFolder folder(
      Files{{"tokenizer_config.json", R"({"extra_special_tokens": ["<tool>"]})"}});
  const auto read = [&](const std::string& name, const std::string& content) {
    folder.folder().write(name, content);
    const auto source = open_source({.globs = {folder.folder().path(name)},
                                     .tokenizer = [&] { return folder.open(); },
                                     .cache = {},
                                     .context = 4,
                                     .vocab = 262},
                                    "data.train");
    source->check_contents();
    return source->size();
  };
  EXPECT_EQ(read("a.jsonl", "{\"text\": \"a b\"}\n"), 1);
  EXPECT_EQ(read("a.txt", "a b c d e f g h i"), 4);
  EXPECT_THAT(refusal(Error::Kind::usage,
                      [&] { read("b.jsonl", "{\"text\": \"a b\"}\n{\"text\": \"a<tool>\"}\n"); }),
              AllOf(HasSubstr("b.jsonl:2"), HasSubstr("id 262 (\"<tool>\") at position 1"),
                    HasSubstr("vocabulary of 262")));
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { read("b.txt", "a b c d e f<tool> g h i"); }),
              AllOf(HasSubstr("b.txt"), HasSubstr("id 262 (\"<tool>\") at token 11, in sample 2")));
}

TEST(FolderTokens, StandOnceAroundATextThatHasThem) {
  json tokenizer = planted_gpt2();
  tokenizer["added_tokens"] = json::array({special_token(262, "<s>"), special_token(263, "</s>")});
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
        {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}}},
      {"special_tokens",
       {{"<s>", {{"id", "<s>"}, {"ids", {262}}, {"tokens", {"<s>"}}}},
        {"</s>", {{"id", "</s>"}, {"ids", {263}}, {"tokens", {"</s>"}}}}}}};
  const TokenizerFolder folder({{"tokenizer_config.json", R"({"eos_token": "</s>"})"}}, tokenizer);
  const auto tokens = [&](const std::string& line) {
    const std::string file = folder.folder().write("lines.jsonl", line + "\n");
    const auto source = open_source(
        {.globs = {file}, .tokenizer = [&] { return folder.open(); }, .cache = {}, .context = 16},
        "data.train");
    const batch::MicroBatch sample = fetch(*source, {0});
    Ids ids = values(sample.inputs);
    ids.push_back(values(sample.targets).back());
    return ids;
  };
  const Ids once{262, 'b', 263};
  EXPECT_EQ(tokens(R"({"text": "b"})"), once);
  EXPECT_EQ(tokens(R"({"text": "<s>b"})"), once);
  EXPECT_EQ(tokens(R"({"text": "b</s>"})"), once);
  EXPECT_EQ(tokens(R"({"text": "<s>b</s>"})"), once);
  EXPECT_EQ(tokens(R"({"prompt": "<s>", "completion": "b</s>"})"), once);
  EXPECT_EQ(tokens(R"({"prompt": "", "completion": "<s>b"})"), once);
  EXPECT_EQ(tokens(R"({"text": "<s><s>b"})"), (Ids{262, 262, 'b', 263})) << "a second one is text";
  EXPECT_EQ(tokens(R"({"text": "b<s>"})"), (Ids{262, 'b', 262, 263}));
  EXPECT_EQ(folder.open()->encode("<s>b", true), (Ids{262, 262, 'b', 263}))
      << "what is asked for by itself is as transformers has it";
}

}  // namespace
}  // namespace accrue::data
