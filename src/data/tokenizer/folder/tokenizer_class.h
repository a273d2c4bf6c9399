#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace accrue::data {

/// The facts that decide which of transformers' classes reads a tokenizer.
struct ClassFacts {
  /// tokenizer_config.json; an empty object if there is none.
  const nlohmann::ordered_json& settings;
  const nlohmann::json& config;  ///< config.json of the model; null: there is none
  bool has_byte_level = false;   ///< tokenizer.json names "ByteLevel"
};

/// The class that AutoTokenizer of transformers 5.24 uses, without "Fast" at its end; empty:
/// TokenizersBackend (formerly PreTrainedTokenizerFast), which takes a tokenizer.json unchanged.
std::string tokenizer_class_of(const ClassFacts& facts);

}  // namespace accrue::data
