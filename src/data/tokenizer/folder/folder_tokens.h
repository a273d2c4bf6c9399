#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace accrue::data {

/// A tokenizer as transformers' AutoTokenizer (5.24) reads it from all files of its folder.
struct FolderTokens {
  /// tokenizer.json in its final form: with the parts that its class supplies in place of the
  /// file's, and with every token that the other files add, each at its id. Not an ordered object:
  /// that would take time quadratic in the vocabulary.
  nlohmann::json tokenizer;
  /// tokenizer_config.json (an empty object if there is none), with every named special token of
  /// the final form, as a text: those that special_tokens_map.json adds, and the class's own.
  nlohmann::ordered_json settings;
  /// Texts of the special tokens, including those that the class supplies.
  std::optional<std::string> bos, eos, pad, unk;
  /// The "eos_token_id" of generation_config.json (or else config.json), in its order.
  std::vector<std::int64_t> end_ids;
  /// Special tokens in a text are encoded as its letters ("split_special_tokens").
  bool splits_special_tokens = false;
  /// Of everything that was read, as far as it decides the ids of a text.
  std::string fingerprint;
};

/// `what` begins the operation of errors. Throws a usage Error that names file and key if a file is
/// not one that transformers reads, or states something that this version does not support.
FolderTokens read_folder_tokens(const std::filesystem::path& tokenizer_file,
                                const std::string& what);

}  // namespace accrue::data
