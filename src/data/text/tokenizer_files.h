#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace accrue::data {

/// The name that transformers has for the file that Tokenizer reads.
inline constexpr const char* kTokenizerFile = "tokenizer.json";
/// And for what may lie beside it: special tokens by name, and how messages become text.
inline constexpr const char* kTokenizerSettings = "tokenizer_config.json";
inline constexpr const char* kChatTemplateFile = "chat_template.jinja";
/// Folder of templates by name.
inline constexpr const char* kChatTemplateFolder = "additional_chat_templates";
/// Of older processors.
inline constexpr const char* kProcessorTemplate = "chat_template.json";
/// Files of older versions, which it still reads.
inline constexpr const char* kSpecialTokensMap = "special_tokens_map.json";
inline constexpr const char* kAddedTokens = "added_tokens.json";
/// Of the model, which names a tokenizer's class and end tokens, too.
inline constexpr const char* kModelConfig = "config.json";
inline constexpr const char* kGenerationConfig = "generation_config.json";

/// Writes tokenizer.json and tokenizer_config.json, with which transformers' AutoTokenizer encodes
/// text as this program does: token i is byte i. It is GPT-2's byte-level BPE without any merge.
/// With a `mask_token`, of that id, "[MASK]" is a token, too; is_byte_tokenizer() is not told then.
void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t context,
                          std::optional<std::int64_t> mask_token = {});

/// What the files of a Hugging Face folder say of the tokens that its model was trained on.
struct FolderTokenizer {
  enum class Kind {
    none,   ///< no file tells
    bytes,  ///< what write_byte_tokenizer() wrote, and no other vocabulary beside it
    other   ///< any other tokenizer: of these, Tokenizer reads a tokenizer.json
  };
  Kind kind = Kind::none;
  std::filesystem::path file;  ///< the file that tells; empty: none
};

/// Whether a tokenizer.json is of bytes: what write_byte_tokenizer() wrote, or makes the same
/// tokens.
bool is_byte_tokenizer(const std::filesystem::path& file);

/// A file of a tokenizer, and the name under which programs look for it.
struct TokenizerPart {
  std::filesystem::path file;
  std::string name;
};

/// The files that belong to a tokenizer.json, whatever it is called, and lie beside it, itself
/// first: what other programs read it from, and chat templates, those of a folder as "FOLDER/NAME".
std::vector<TokenizerPart> files_of_tokenizer(const std::filesystem::path& tokenizer_file);

/// And the model's files that decide how it is read: config.json names its class, and both
/// config.json and generation_config.json end tokens.
std::vector<TokenizerPart> files_read_with_tokenizer(const std::filesystem::path& tokenizer_file);

/// Looks for tokenizer.json, vocab.json, merges.txt, SentencePiece models, *.tiktoken and the like.
/// A folder that is not there has none.
FolderTokenizer find_tokenizer(const std::filesystem::path& folder);

}  // namespace accrue::data
