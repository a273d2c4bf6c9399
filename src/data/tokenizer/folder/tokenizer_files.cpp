#include "data/tokenizer/folder/tokenizer_files.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/atomic_file.h"
#include "data/tokenizer/unicode/byte_characters.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

/// Files with tokens come first: the settings alone do not define the tokens.
constexpr std::array<const char*, 11> tokenizer_names{
    kTokenizerFile,    "vocab.json",      "merges.txt",
    "tokenizer.model", "spiece.model",    "sentencepiece.bpe.model",
    "vocab.txt",       "encoder.json",    "vocab.bpe",
    "tekken.json",     kTokenizerSettings};

OrderedJson byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

OrderedJson byte_tokenizer() {
  OrderedJson vocabulary = OrderedJson::object();
  const auto& characters = byte_characters();
  for (std::size_t byte = 0; byte < characters.size(); ++byte) vocabulary[characters[byte]] = byte;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", OrderedJson::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"post_processor", nullptr},
          {"decoder", byte_level()},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocabulary},
            {"merges", OrderedJson::array()}}}};
}

/// The first file for which `counts` holds, by name.
std::optional<fs::path> first_file(const fs::path& folder,
                                   const std::function<bool(std::string_view)>& counts) {
  std::error_code unreadable;
  for (const char* name : tokenizer_names)
    if (counts(name) && fs::exists(folder / name, unreadable)) return folder / name;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, unreadable))
    if (file.path().extension() == ".tiktoken") return file.path();
  return std::nullopt;
}

/// Adds a file if it exists.
void take_file(const fs::path& folder, const std::string& name, std::vector<TokenizerPart>& files) {
  std::error_code unreadable;
  if (fs::is_regular_file(folder / name, unreadable)) files.push_back({folder / name, name});
}

/// Other programs write a post-processor that adds nothing instead of none.
bool adds_tokens(const nlohmann::json& post_processor) {
  if (!post_processor.is_object()) return !post_processor.is_null();
  const auto special = post_processor.find("special_tokens");
  return special == post_processor.end() || !special->empty();
}

}  // namespace

/// Compares only what decides the tokens of a text: other programs rewrite the rest.
bool is_byte_tokenizer(const fs::path& file) {
  constexpr std::uintmax_t most_bytes =
      1 << 16;  // the byte tokenizer has 4 KiB, others have megabytes
  std::error_code unreadable;
  const std::uintmax_t bytes = fs::file_size(file, unreadable);
  if (unreadable || bytes > most_bytes) return false;
  const auto found = nlohmann::json::parse(read_file(file), nullptr, false);
  const nlohmann::json ours = byte_tokenizer();
  for (const char* name : {"/added_tokens", "/normalizer", "/pre_tokenizer", "/model/type",
                           "/model/vocab", "/model/merges"}) {
    const nlohmann::json::json_pointer part(name);
    if (!found.contains(part) || found.at(part) != ours.at(part)) return false;
  }
  return found.contains("post_processor") && !adds_tokens(found["post_processor"]);
}

std::vector<TokenizerPart> files_of_tokenizer(const fs::path& tokenizer_file) {
  std::vector<TokenizerPart> files{{tokenizer_file, kTokenizerFile}};
  const fs::path folder = tokenizer_file.parent_path();
  for (const char* name :
       {kTokenizerSettings, kSpecialTokensMap, kAddedTokens, kChatTemplateFile, kProcessorTemplate})
    take_file(folder, name, files);
  std::error_code unreadable;
  std::vector<std::string> templates;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder / kChatTemplateFolder, unreadable))
    if (entry.path().extension() == ".jinja") templates.push_back(entry.path().filename().string());
  std::ranges::sort(templates);
  for (const std::string& name : templates)
    take_file(folder, std::string(kChatTemplateFolder) + "/" + name, files);
  return files;
}

std::vector<TokenizerPart> files_read_with_tokenizer(const fs::path& tokenizer_file) {
  std::vector<TokenizerPart> files = files_of_tokenizer(tokenizer_file);
  for (const char* name : {kModelConfig, kGenerationConfig})
    take_file(tokenizer_file.parent_path(), name, files);
  return files;
}

FolderTokenizer find_tokenizer(const fs::path& folder) {
  using Kind = FolderTokenizer::Kind;
  const bool bytes = is_byte_tokenizer(folder / kTokenizerFile);
  const auto other = first_file(folder, [&](std::string_view name) {
    return !bytes || (name != kTokenizerFile && name != kTokenizerSettings);
  });
  if (other) return {.kind = Kind::other, .file = *other};
  if (bytes) return {.kind = Kind::bytes, .file = folder / kTokenizerFile};
  return {};
}

void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t context,
                          std::optional<std::int64_t> mask_token) {
  OrderedJson config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"model_max_length", context},
                     {"clean_up_tokenization_spaces", false}};
  OrderedJson tokenizer = byte_tokenizer();
  if (mask_token) {
    constexpr const char* mask = "[MASK]";
    config["mask_token"] = mask;
    // Readers give an added token its id in the vocabulary, or else the next one.
    tokenizer["model"]["vocab"][mask] = *mask_token;
    tokenizer["added_tokens"].push_back({{"id", *mask_token},
                                         {"content", mask},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", true}});
  }
  write_file_atomically(folder / kTokenizerFile, tokenizer.dump(1) + "\n");
  write_file_atomically(folder / kTokenizerSettings, config.dump(1) + "\n");
}

}  // namespace accrue::data
