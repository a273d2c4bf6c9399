#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/folder/stated_token.h"

namespace accrue::data {

/// The special tokens for which transformers has names, in the order in which it adds them.
inline constexpr std::array<const char*, 7> kNamedTokens{
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/// Special tokens by name, in the order in which the names appeared; a later value replaces an
/// earlier one.
class SpecialTokens {
 public:
  using Entry = std::pair<std::string, std::optional<SpecialToken>>;

  /// No token: "null".
  void set(const std::string& name, std::optional<SpecialToken> token);
  /// Whether the name has a value, even null.
  bool has(const std::string& name) const { return find(name) != nullptr; }
  /// The text; none if the name has no token.
  std::optional<std::string> text_of(const std::string& name) const;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  /// Null if the name has no value.
  const std::optional<SpecialToken>* find(const std::string& name) const;

  std::vector<Entry> entries_;
};

/// The JSON objects in files next to a tokenizer.json. If a file is missing, the settings are an
/// empty object, and the others null.
struct CompanionFiles {
  std::filesystem::path folder;
  nlohmann::ordered_json settings;      ///< tokenizer_config.json
  nlohmann::ordered_json special_map;   ///< special_tokens_map.json
  nlohmann::ordered_json added_tokens;  ///< added_tokens.json
};

/// A token of "added_tokens" of a tokenizer.json.
struct FileToken {
  std::int64_t id = 0;  ///< as stated
  StatedToken token;
};

/// The tokens that transformers passes to a tokenizer's class.
struct TokenArguments {
  std::map<std::int64_t, StatedToken> added;  ///< "added_tokens_decoder": by the stated id
  SpecialTokens named;                        ///< the stated ones of kNamedTokens
  SpecialTokens other;                        ///< other names, such as "image_token"
  std::vector<SpecialToken> extra;            ///< "extra_special_tokens"
  bool has_extra = false;                     ///< they are stated under that name, even as null
};

/// Merges the files like PreTrainedTokenizerBase._from_pretrained of transformers 5.24:
/// "added_tokens_decoder" of tokenizer_config.json alone defines which tokens are added, if it
/// exists. Without it special_tokens_map.json overrides tokenizer_config.json, and the tokens of
/// added_tokens.json and tokenizer.json are added. `what` begins the operation of errors. Throws
/// a usage Error that names file and key if a value has a type that transformers does not
/// accept.
TokenArguments token_arguments(const CompanionFiles& files, const std::vector<FileToken>& of_file,
                               const std::string& what);

}  // namespace accrue::data
