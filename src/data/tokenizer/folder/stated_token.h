#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace accrue::data {

/// A token in a file: transformers' AddedToken.
struct StatedToken {
  std::string text;
  bool is_special = false;
  bool is_word = false;
  bool strips_left = false;
  bool strips_right = false;
  std::optional<bool> normalized = {};  ///< none: normalized unless it is special

  bool is_normalized() const { return normalized.value_or(!is_special); }
  bool operator==(const StatedToken& other) const;
};

/// The value of a special token: only a text, or a token with its properties.
struct SpecialToken {
  StatedToken token;
  bool is_text = true;  ///< the code that adds it chooses the properties

  const std::string& text() const { return token.text; }
  /// As Python compares them: a text is not equal to a token.
  bool operator==(const SpecialToken& other) const;
};

/// Makes tokens from a file's values. Errors name the file and the key.
class TokenReader {
 public:
  /// `operation` is that of errors, and names the file.
  explicit TokenReader(std::string operation) : operation_(std::move(operation)) {}

  /// An object with "content" and properties. Throws a usage Error if one has another type.
  StatedToken token(const nlohmann::ordered_json& stated, const std::string& key) const;
  /// A text, or such an object.
  SpecialToken special(const nlohmann::ordered_json& stated, const std::string& key) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const nlohmann::ordered_json& received) const;

 private:
  std::string operation_;
};

/// Whether transformers treats an object as a token anywhere ("__type": "AddedToken").
bool is_marked_token(const nlohmann::ordered_json& stated);

}  // namespace accrue::data
