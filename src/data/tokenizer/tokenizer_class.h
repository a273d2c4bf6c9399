#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace accrue::data {

/// What decides which of transformers' classes reads a tokenizer.
struct ClassFacts {
  /// tokenizer_config.json; an empty object when there is none.
  const nlohmann::ordered_json& settings;
  const nlohmann::json& config;  ///< config.json of the model; null: there is none
  bool has_byte_level = false;   ///< tokenizer.json names "ByteLevel"
};

/// The class that AutoTokenizer of transformers 5.24 takes, without "Fast" at its end; empty:
/// TokenizersBackend (which was PreTrainedTokenizerFast), that takes a tokenizer.json as it is.
std::string tokenizer_class_of(const ClassFacts& facts);

}  // namespace accrue::data
