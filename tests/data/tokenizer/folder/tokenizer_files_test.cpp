#include "data/tokenizer/folder/tokenizer_files.h"

#include <nlohmann/json.hpp>

#include "accrue/data/tokenizer.h"
#include "core/atomic_file.h"
#include "data/folder.h"

namespace accrue::data {
namespace {

using nlohmann::json;
using testing::Folder;
using Kind = FolderTokenizer::Kind;

void change(const Folder& folder, const std::string& pointer, const json& value) {
  json tokenizer = json::parse(read_file(folder.path("tokenizer.json")));
  tokenizer[json::json_pointer(pointer)] = value;
  folder.write("tokenizer.json", tokenizer.dump());
}

TEST(TokenizerFiles, ThatOfBytesIsKnownAgain) {
  const Folder folder;
  write_byte_tokenizer(folder.root(), 16);
  const FolderTokenizer found = find_tokenizer(folder.root());
  EXPECT_EQ(found.kind, Kind::bytes);
  EXPECT_EQ(found.file, folder.root() / "tokenizer.json");
}

TEST(TokenizerFiles, ThatOfBytesMayHaveAMaskBehindThem) {
  const Folder folder;
  write_byte_tokenizer(folder.root(), 16, /*mask_token=*/256);
  EXPECT_EQ(find_tokenizer(folder.root()).kind, Kind::other);
  const auto tokenizer = Tokenizer::open(folder.path("tokenizer.json"), "a test");
  EXPECT_EQ(tokenizer->vocab(), 257);
  EXPECT_EQ(tokenizer->id_of("[MASK]"), 256);
  EXPECT_EQ(tokenizer->special_ids(), std::vector<std::int64_t>{256});
  EXPECT_EQ(tokenizer->encode("a\xc3\xa9[MASK]"), (std::vector<std::int64_t>{97, 0xc3, 0xa9, 256}));
}

/// tokenizers 0.22's version of it when transformers saves the folder: nothing adds a token.
TEST(TokenizerFiles, ThatOfBytesIsKnownAgainWhereTransformersWroteIt) {
  const Folder folder;
  write_byte_tokenizer(folder.root(), 16);
  change(folder, "/model/ignore_merges", false);
  change(folder, "/post_processor",
         json::parse(R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A",
                         "type_id": 0}}], "special_tokens": {}})"));
  EXPECT_EQ(find_tokenizer(folder.root()).kind, Kind::bytes);
  change(folder, "/post_processor/special_tokens", {{"<s>", {{"ids", {1}}}}});
  EXPECT_EQ(find_tokenizer(folder.root()).kind, Kind::other) << "it begins each text with a token";
}

TEST(TokenizerFiles, AnyDifferenceThatChangesTokensIsAnother) {
  for (const auto& [pointer, value] : std::vector<std::pair<std::string, json>>{
           {"/model/merges", {"a b"}},
           {"/model/vocab/a", 98},
           {"/model/vocab/ab", 256},
           {"/model/type", "WordPiece"},
           {"/normalizer", {{"type", "Lowercase"}}},
           {"/pre_tokenizer/add_prefix_space", true},
           {"/added_tokens", {{{"id", 256}, {"content", "<s>"}}}},
           {"/model", json::array()},
           {"/post_processor", 3}}) {
    const Folder folder;
    write_byte_tokenizer(folder.root(), 16);
    change(folder, pointer, value);
    EXPECT_EQ(find_tokenizer(folder.root()).kind, Kind::other) << pointer;
  }
  const Folder folder;
  for (const char* text : {"", "{", "[]", "null", "{\"model\": {}}"}) {
    folder.write("tokenizer.json", text);
    EXPECT_EQ(find_tokenizer(folder.root()).kind, Kind::other) << text;
  }
}

TEST(TokenizerFiles, EveryOtherOneIsFoundByItsFile) {
  for (const char* name :
       {"tokenizer.json", "vocab.json", "merges.txt", "tokenizer.model", "spiece.model",
        "sentencepiece.bpe.model", "vocab.txt", "qwen.tiktoken", "tokenizer_config.json"}) {
    const Folder folder;
    folder.write("config.json", "{}");
    EXPECT_EQ(find_tokenizer(folder.root()).kind, Kind::none);
    folder.write(name, "{}");
    const FolderTokenizer found = find_tokenizer(folder.root());
    EXPECT_EQ(found.kind, Kind::other);
    EXPECT_EQ(found.file, folder.root() / name);
  }
}

TEST(TokenizerFiles, AnotherVocabularyBesideThatOfBytesIsNamed) {
  const Folder folder;
  write_byte_tokenizer(folder.root(), 16);
  folder.write("vocab.json", "{}");
  EXPECT_EQ(find_tokenizer(folder.root()).file, folder.root() / "vocab.json");
}

TEST(TokenizerFiles, OfATokenizerAreAllThatReadersLookFor) {
  const Folder folder;
  const std::vector<std::string> names{"tokenizer.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "chat_template.jinja",
                                       "chat_template.json",
                                       "additional_chat_templates/rag.jinja",
                                       "additional_chat_templates/tool_use.jinja"};
  for (const std::string& name : names) folder.write(name, "{}");
  folder.write("notes.json", "{}");
  folder.write("additional_chat_templates/notes.txt", "no template");
  std::vector<std::string> found;
  for (const TokenizerPart& part : files_of_tokenizer(folder.path("tokenizer.json"))) {
    found.push_back(part.name);
    EXPECT_EQ(part.file, folder.root() / part.name);
  }
  EXPECT_EQ(found, names);
}

/// A processor's template is used if nothing else has one, so a copy needs it, too.
TEST(TokenizerFiles, OfATokenizerHaveTheTemplateOfAProcessor) {
  const Folder folder;
  folder.write("tokenizer.json", "{}");
  folder.write("chat_template.json", R"({"chat_template": "P"})");
  const std::vector<TokenizerPart> found = files_of_tokenizer(folder.path("tokenizer.json"));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].name, "chat_template.json");
  EXPECT_EQ(found[1].file, folder.root() / "chat_template.json");
}

TEST(TokenizerFiles, AFolderThatIsNotThereHasNone) {
  const Folder folder;
  EXPECT_EQ(find_tokenizer(folder.root() / "nowhere").kind, Kind::none);
}

}  // namespace
}  // namespace accrue::data
