#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "data/json/line_problem.h"

namespace accrue::data {

/// The suggestion if a tokenizer.json is wrong.
inline constexpr const char* whole_tokenizer_file = "the tokenizer.json that the model came with";
/// The same for one of the other files.
inline constexpr const char* whole_tokenizer_folder = "the files that the tokenizer came with";

/// A value for a message, shortened if necessary. `Value` is nlohmann's json or ordered_json.
template <class Value>
std::string short_form(const Value& value) {
  return shortened(value.dump(-1, ' ', /*ensure_ascii=*/true, Value::error_handler_t::replace));
}

/// An object of a tokenizer.json: a value that is missing, or has another type, is a usage Error
/// that names file, part and key.
class JsonPart {
 public:
  /// `what` is the operation of errors, `name` the part ("pre_tokenizer"). `object` is kept by
  /// reference.
  JsonPart(const nlohmann::json& object, std::string what, std::string name);

  std::string type() const { return text("type"); }
  std::string text(const char* key) const;
  /// None if it is absent or null.
  std::optional<std::string> optional_text(const char* key) const;
  bool flag(const char* key, bool absent) const;
  /// From 0 to `most`.
  std::int64_t integer(const char* key, std::int64_t most) const;
  const nlohmann::json& list(const char* key) const;
  const nlohmann::json& object(const char* key) const;
  /// Null if it is absent.
  const nlohmann::json& value(const char* key) const;

  const std::string& what() const { return what_; }
  const std::string& name() const { return name_; }
  /// Reports that this version does not know the type of the part.
  [[noreturn]] void refuse_type() const;
  /// Reports that the value of `key` is not known.
  [[noreturn]] void refuse(const char* key, const std::string& expected) const;

 private:
  const nlohmann::json& object_;
  std::string what_, name_;
};

}  // namespace accrue::data
