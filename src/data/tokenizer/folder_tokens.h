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
  /// tokenizer.json as what reads it has it at last: the parts that its class brings in the place
  /// of the file's, and every token that the files beside it add, each at its id. Not an ordered
  /// object: that would take time quadratic in the vocabulary.
  nlohmann::json tokenizer;
  /// tokenizer_config.json (an empty object when there is none), with every named special token
  /// that there is at last, as a text: what special_tokens_map.json adds, and the class's own.
  nlohmann::ordered_json settings;
  /// Texts of the special tokens, those that the class brings included.
  std::optional<std::string> bos, eos, pad, unk;
  /// What generation_config.json (or else config.json) names as "eos_token_id", in its order.
  std::vector<std::int64_t> end_ids;
  /// Special tokens in a text are encoded as its letters ("split_special_tokens").
  bool splits_special_tokens = false;
  /// Of all that was read, as far as it decides which ids a text becomes.
  std::string fingerprint;
};

/// `what` begins the operation of errors. Throws a usage Error that names file and key when a file
/// is none that transformers reads, or says something that this version does not do.
FolderTokens read_folder_tokens(const std::filesystem::path& tokenizer_file,
                                const std::string& what);

}  // namespace accrue::data
