#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "accrue/models/llama_gguf.h"
#include "core/atomic_file.h"
#include "data/tokenizer/pipeline/part_forms.h"
#include "data/tokenizer/unicode/byte_characters.h"
#include "models/files/gguf/container/gguf_file.h"
#include "models/files/gguf/container/gguf_writer.h"
#include "models/files/gguf/tokenizer/gguf_spaces.h"
#include "models/files/gguf/tokenizer/gguf_token_types.h"
#include "models/support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Files with only the keys of a tokenizer.
class GgufTokenizerFile : public ::testing::Test {
 protected:
  using Change = std::function<void(GgufKeyWriter&)>;

  std::filesystem::path file() const { return folder_ / "model.gguf"; }

  void write(const Change& change, const std::string& model = "gpt2",
             const std::vector<std::string>& tokens = {"a", "b", "ab", "<end>"}) const {
    GgufKeyWriter keys;
    keys.add("tokenizer.ggml.model", model);
    keys.add("tokenizer.ggml.tokens", tokens);
    change(keys);
    write_gguf(file(), keys, {});
  }

  GgufTokenizer written(const Change& change, const std::string& model = "gpt2",
                        const std::vector<std::string>& tokens = {"a", "b", "ab", "<end>"}) const {
    write(change, model, tokens);
    return read_gguf_tokenizer(file()).value();
  }

  std::string refusal(const Change& change, const std::string& model = "gpt2",
                      const std::vector<std::string>& tokens = {"a", "b", "ab", "<end>"}) const {
    write(change, model, tokens);
    const std::string message = message_of([&] { read_gguf_tokenizer(file()); });
    EXPECT_THAT(message, HasSubstr("model.gguf"));
    return message;
  }

  static void add_merges(GgufKeyWriter& keys) {
    keys.add("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  }
  static Change with_scores(std::vector<float> scores) {
    return [=](GgufKeyWriter& keys) { keys.add("tokenizer.ggml.scores", scores); };
  }
  static Change with_pre(const std::string& name) {
    return [=](GgufKeyWriter& keys) {
      keys.add("tokenizer.ggml.pre", name);
      add_merges(keys);
    };
  }

  TemporaryFolder folder_;
};

TEST_F(GgufTokenizerFile, OfAnUnknownPatternIsNamed) {
  EXPECT_THAT(refusal(with_pre("gpt-99")), HasSubstr("received \"gpt-99\""));
  for (const char* known : {"llama-bpe", "qwen2", "gpt-2", "smollm", "tekken", "default", "dbrx"})
    EXPECT_FALSE(written(with_pre(known)).tokenizer.empty()) << known;
}

/// llama.cpp has none for bytes, whatever the tokenizer.json of models of that name has.
TEST_F(GgufTokenizerFile, OfBytesHasNoNormalizer) {
  for (const char* known : {"llama-bpe", "qwen2", "deepseek-r1-qwen", "gpt-2"})
    EXPECT_TRUE(json::parse(written(with_pre(known)).tokenizer)["normalizer"].is_null()) << known;
}

/// In llama.cpp's order: GPT-2's words are cut before numbers are separated from them.
TEST_F(GgufTokenizerFile, WithoutANameIsCutAsLlamaCppDoes) {
  const json tokenizer = json::parse(written(add_merges).tokenizer);
  const json& steps = tokenizer["pre_tokenizer"]["pretokenizers"];
  ASSERT_EQ(steps.size(), 5U);
  EXPECT_THAT(steps[1]["pattern"]["Regex"].get<std::string>(), HasSubstr("'s|'t|'re"));
  EXPECT_EQ(steps[2]["pattern"]["Regex"], R"(\p{N}+)");
}

TEST_F(GgufTokenizerFile, ThatContradictsItselfIsNamed) {
  const auto nothing = [](GgufKeyWriter&) {};
  EXPECT_THAT(refusal(nothing), HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(refusal(nothing, "bert"), HasSubstr("received \"bert\""));
  EXPECT_THAT(refusal(nothing, "llama"), HasSubstr("tokenizer.ggml.scores"));
  EXPECT_THAT(refusal(add_merges, "gpt2", {"a", "b", "a"}), HasSubstr("each token once"));
  EXPECT_THAT(refusal(add_merges, "gpt2", {"a", "\xff"}), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal([](GgufKeyWriter& keys) {
                keys.add("tokenizer.ggml.token_type", std::vector<std::int32_t>{1});
              }),
              HasSubstr("4 types"));
  EXPECT_THAT(refusal([](GgufKeyWriter& keys) {
                keys.add("tokenizer.ggml.eos_token_id", std::uint32_t{4});
              }),
              HasSubstr("tokenizer.ggml.eos_token_id"));
  EXPECT_THAT(refusal(with_scores({1}), "llama"), HasSubstr("4 scores"));
  EXPECT_THAT(refusal([](GgufKeyWriter& keys) {
                add_merges(keys);
                keys.add("tokenizer.chat_templates", std::vector<std::string>{"../a"});
              }),
              HasSubstr("names of letters, digits and _"));
}

/// If two tokens have the same score, llama.cpp merges the left one; a tokenizer.json cannot.
TEST_F(GgufTokenizerFile, OfTokensWithOneScoreIsRefused) {
  const std::vector<std::string> tokens{"a", "b", "ab", "bb"};
  EXPECT_THAT(refusal(with_scores({0, 0, -1, -1}), "llama", tokens),
              AllOf(HasSubstr("tokenizer.ggml.scores"), HasSubstr("\"ab\""), HasSubstr("\"bb\"")));
  const json tokenizer =
      json::parse(written(with_scores({0, 0, -1, -2}), "llama", tokens).tokenizer);
  EXPECT_EQ(tokenizer["model"]["merges"], json::parse(R"([["a", "b"], ["b", "b"]])"));
}

TEST_F(GgufTokenizerFile, NamesItsChatTemplatesAndEnds) {
  const GgufTokenizer read = written([](GgufKeyWriter& keys) {
    add_merges(keys);
    keys.add("tokenizer.chat_template", std::string("usual"));
    keys.add("tokenizer.chat_template.tool_use", std::string("tools"));
    keys.add("tokenizer.chat_templates", std::vector<std::string>{"tool_use"});
    keys.add("tokenizer.ggml.eos_token_id", std::uint32_t{3});
    keys.add("tokenizer.ggml.eot_token_id", std::uint32_t{2});
    keys.add("tokenizer.ggml.eom_token_id", std::uint32_t{3});
  });
  EXPECT_EQ(read.chat_templates,
            (std::map<std::string, std::string>{{"default", "usual"}, {"tool_use", "tools"}}));
  EXPECT_THAT(read_gguf_end_tokens(file()), ElementsAre(3, 2));
}

TEST_F(GgufTokenizerFile, WhoseEndIsARowWithoutATokenHasNone) {
  const GgufTokenizer read = written([](GgufKeyWriter& keys) {
    add_merges(keys);
    keys.add("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 5});
    keys.add("tokenizer.ggml.eos_token_id", std::uint32_t{3});
  });
  EXPECT_TRUE(read_gguf_end_tokens(file()).empty());
  EXPECT_FALSE(json::parse(read.settings).contains("eos_token"));
}

LlamaOptions of_300_tokens() {
  return {.layers = 1, .heads = 2, .width = 32, .ffn_width = 32, .context = 8, .vocab = 300};
}

/// A tokenizer.json of bytes: token i is byte i, and then "Ġt" and "he".
json byte_tokenizer() {
  json vocab = json::object();
  const auto& characters = data::byte_characters();
  for (std::size_t byte = 0; byte < characters.size(); ++byte) vocab[characters[byte]] = byte;
  vocab["\u0120t"] = 256;
  vocab["he"] = 257;
  return {
      {"added_tokens", json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"merges", json::parse("[[\"\u0120\", \"t\"], [\"h\", \"e\"]]")}}}};
}

/// Models whose tokenizer is `byte_tokenizer()`, changed.
class GgufOfTokenizer : public GgufTokenizerFile {
 protected:
  std::string refused(const std::function<void(json&)>& change, bool nearest = false) const {
    return message_of([&] { save(change, nearest); });
  }

  GgufDifferences save(const std::function<void(json&)>& change, bool nearest = false) const {
    json tokenizer = byte_tokenizer();
    change(tokenizer);
    write_file_atomically(folder_ / "tokenizer.json", tokenizer.dump());
    return save_llama_gguf(file(), Llama(of_300_tokens()), GgufDtype::f16,
                           GgufTokens{.tokenizer = folder_ / "tokenizer.json", .nearest = nearest});
  }
};

TEST_F(GgufOfTokenizer, IsNotThereIfItIsRefused) {
  const auto with = [](const char* part, const json& value) {
    return [=](json& tokenizer) { tokenizer[part] = value; };
  };
  EXPECT_THAT(refused(with("normalizer", {{"type", "NFKC"}})), HasSubstr("NFKC"));
  EXPECT_THAT(refused(with("pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", true}})),
              HasSubstr("a pre-tokenizer that llama.cpp has"));
  EXPECT_THAT(refused([](json& tokenizer) { tokenizer["model"]["vocab"]["c"] = 300; }),
              HasSubstr("ids below 300"));
  EXPECT_THAT(refused([](json& tokenizer) {
                tokenizer["added_tokens"] = json::parse(
                    R"([{"id": 258, "content": "<m>", "lstrip": true, "special": true}])");
              }),
              AllOf(HasSubstr("<m>"), HasSubstr("lstrip")));
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(GgufOfTokenizer, IsTheNearestIfThatIsAskedFor) {
  const auto nfc = [](json& tokenizer) { tokenizer["normalizer"] = {{"type", "NFC"}}; };
  EXPECT_THAT(refused(nfc), AllOf(HasSubstr("NFC"), HasSubstr("--nearest-tokenizer")));
  EXPECT_FALSE(std::filesystem::exists(file()));
  const GgufDifferences differences = save(nfc, /*nearest=*/true);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_THAT(differences.front(), HasSubstr("text that is not in NFC"));
  EXPECT_TRUE(save([](json&) {}, /*nearest=*/true).empty());
}

/// The rows after a tokenizer's are unused; one of its own tokens may have such a row's name.
TEST_F(GgufOfTokenizer, HasEachNameOnce) {
  save([](json& tokenizer) { tokenizer["model"]["vocab"]["[PAD299]"] = 298; });
  const std::vector<std::string> tokens = GgufFile(file()).texts("tokenizer.ggml.tokens");
  const std::set<std::string> names(tokens.begin(), tokens.end());
  EXPECT_EQ(names.size(), 300U);
  EXPECT_EQ(tokens[298], "[PAD299]");
  EXPECT_EQ(tokens[299], "[PAD299]_");
}

TEST_F(GgufOfTokenizer, WithoutTokensHasNone) {
  save_llama_gguf(file(), Llama(of_300_tokens()), GgufDtype::f32);
  EXPECT_FALSE(read_gguf_tokenizer(file()));
  EXPECT_TRUE(read_gguf_end_tokens(file()).empty());
}

TEST(GgufSpaces, AreShownAndPutBeforeTextAsLlamaCppCan) {
  const json prepend = {{"type", "Prepend"}, {"prepend", data::kMarkedSpace}};
  const json replace = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", data::kMarkedSpace}};
  const json both = {{"type", "Sequence"}, {"normalizers", {prepend, replace}}};
  const auto metaspace = [](const char* scheme, bool split) {
    return json{{"type", "Metaspace"},
                {"replacement", data::kMarkedSpace},
                {"prepend_scheme", scheme},
                {"split", split}};
  };
  const std::vector<std::string_view> words{"a", "\u2581a"}, reaching{"a\u2581b"};
  const auto obstacle = [&](const json& normalizer, const json& pre_tokenizer) {
    return spaces_of(normalizer, pre_tokenizer, words).obstacle;
  };
  EXPECT_EQ(obstacle(both, nullptr), "");
  EXPECT_TRUE(spaces_of(both, nullptr, words).prepends);
  EXPECT_FALSE(spaces_of(replace, nullptr, words).prepends);
  EXPECT_EQ(spaces_of(nullptr, metaspace("never", true), words).other_texts, "");
  EXPECT_THAT(spaces_of(nullptr, metaspace("never", true), reaching).obstacle,
              HasSubstr("cuts within the token \"a\u2581b\""));
  EXPECT_THAT(spaces_of(nullptr, metaspace("first", false), words).other_texts,
              HasSubstr("follows a special token"));
  EXPECT_EQ(spaces_of(both, metaspace("always", false), words).other_texts, "");
  EXPECT_EQ(obstacle(nullptr, nullptr), "spaces that stay as they are");
  EXPECT_THAT(obstacle({{"type", "Lowercase"}}, nullptr), HasSubstr("Lowercase"));
  EXPECT_THAT(obstacle(replace, {{"type", "Digits"}, {"individual_digits", true}}),
              HasSubstr("the pre_tokenizer"));
}

}  // namespace
}  // namespace accrue::models
