#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace accrue::data {

/// The file that Tokenizer reads, by transformers' name for it.
inline constexpr const char* kTokenizerFile = "tokenizer.json";
/// Files that may lie next to it: special tokens by name, and how messages become text.
inline constexpr const char* kTokenizerSettings = "tokenizer_config.json";
inline constexpr const char* kChatTemplateFile = "chat_template.jinja";
/// Folder of templates by name.
inline constexpr const char* kChatTemplateFolder = "additional_chat_templates";
/// From older processors.
inline constexpr const char* kProcessorTemplate = "chat_template.json";
/// Files of older versions, which transformers still reads.
inline constexpr const char* kSpecialTokensMap = "special_tokens_map.json";
inline constexpr const char* kAddedTokens = "added_tokens.json";
/// From the model; they also name a tokenizer's class and end tokens.
inline constexpr const char* kModelConfig = "config.json";
inline constexpr const char* kGenerationConfig = "generation_config.json";

/// Writes tokenizer.json and tokenizer_config.json, with which transformers' AutoTokenizer encodes
/// text as this program does: token i is byte i. It is GPT-2's byte-level BPE without any merge.
/// With a `mask_token`, "[MASK]" is also a token, with that id; is_byte_tokenizer() is false then.
void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t context,
                          std::optional<std::int64_t> mask_token = {});

/// The tokenizer that a Hugging Face folder's files show its model was trained with.
struct FolderTokenizer {
  enum class Kind {
    none,   ///< the files do not show it
    bytes,  ///< from write_byte_tokenizer(), without another vocabulary
    other   ///< any other; of these, Tokenizer reads a tokenizer.json
  };
  Kind kind = Kind::none;
  std::filesystem::path file;  ///< the file that shows it; empty: none
};

/// Whether a tokenizer.json is of bytes: from write_byte_tokenizer(), or with the same
/// tokens.
bool is_byte_tokenizer(const std::filesystem::path& file);

/// A file of a tokenizer, and the name under which programs search for it.
struct TokenizerPart {
  std::filesystem::path file;
  std::string name;
};

/// The files that belong to a tokenizer.json, whatever its name, and lie next to it, itself first:
/// those from which other programs read it, and chat templates, those in a folder as "FOLDER/NAME".
std::vector<TokenizerPart> files_of_tokenizer(const std::filesystem::path& tokenizer_file);

/// Also the model's files that affect how it is read: config.json names its class, and both
/// config.json and generation_config.json name end tokens.
std::vector<TokenizerPart> files_read_with_tokenizer(const std::filesystem::path& tokenizer_file);

/// Searches for tokenizer.json, vocab.json, merges.txt, SentencePiece models, *.tiktoken and the
/// like. A folder that does not exist has none.
FolderTokenizer find_tokenizer(const std::filesystem::path& folder);

}  // namespace accrue::data
