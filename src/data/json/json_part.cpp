#include "data/json/json_part.h"

#include <utility>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

using nlohmann::json;

}  // namespace

JsonPart::JsonPart(const json& object, std::string what, std::string name)
    : object_(object), what_(std::move(what)), name_(std::move(name)) {
  if (!object_.is_object())
    throw usage_error(what_, "an object for " + name_, short_form(object_), whole_tokenizer_file);
}

const json& JsonPart::value(const char* key) const {
  static const json none;
  const auto found = object_.find(key);
  return found == object_.end() ? none : *found;
}

void JsonPart::refuse(const char* key, const std::string& expected) const {
  throw usage_error(what_, expected + " for " + name_ + "." + key, short_form(value(key)),
                    whole_tokenizer_file);
}

void JsonPart::refuse_type() const {
  throw usage_error(what_, "a " + name_ + " that this version knows", "\"" + type() + "\"",
                    "token files made with that tokenizer (data.format = \"tokens\")");
}

std::string JsonPart::text(const char* key) const {
  if (!value(key).is_string()) refuse(key, "a text");
  return value(key).get<std::string>();
}

std::optional<std::string> JsonPart::optional_text(const char* key) const {
  if (value(key).is_null()) return std::nullopt;
  return text(key);
}

bool JsonPart::flag(const char* key, bool absent) const {
  if (value(key).is_null()) return absent;
  if (!value(key).is_boolean()) refuse(key, "true or false");
  return value(key).get<bool>();
}

std::int64_t JsonPart::integer(const char* key, std::int64_t most) const {
  const json& found = value(key);
  if (!found.is_number_integer() || found < 0 || found > most)
    refuse(key, "an integer from 0 to " + std::to_string(most));
  return found.get<std::int64_t>();
}

const json& JsonPart::list(const char* key) const {
  if (!value(key).is_array()) refuse(key, "a list");
  return value(key);
}

const json& JsonPart::object(const char* key) const {
  if (!value(key).is_object()) refuse(key, "an object");
  return value(key);
}

}  // namespace accrue::data
