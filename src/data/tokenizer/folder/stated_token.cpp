#include "data/tokenizer/folder/stated_token.h"

#include "accrue/core/error.h"
#include "data/json/json_part.h"

namespace accrue::data {
namespace {

using StatedJson = nlohmann::ordered_json;

}  // namespace

bool StatedToken::operator==(const StatedToken& other) const {
  return text == other.text && is_special == other.is_special && is_word == other.is_word &&
         strips_left == other.strips_left && strips_right == other.strips_right &&
         is_normalized() == other.is_normalized();
}

bool SpecialToken::operator==(const SpecialToken& other) const {
  if (is_text != other.is_text) return false;
  return is_text ? text() == other.text() : token == other.token;
}

StatedToken TokenReader::token(const StatedJson& stated, const std::string& key) const {
  const auto value = [&](const char* name) { return stated.value(name, StatedJson()); };
  const auto flag = [&](const char* name) -> std::optional<bool> {
    const auto found = stated.find(name);
    if (found == stated.end()) return std::nullopt;
    if (!found->is_boolean()) refuse(key + "." + name, "true or false", *found);
    return found->get<bool>();
  };
  if (!stated.is_object()) refuse(key, "an object with \"content\"", stated);
  const StatedJson content = value("content");
  if (!content.is_string()) refuse(key + ".content", "a text", content);
  return {.text = content.get<std::string>(),
          .is_special = flag("special").value_or(false),
          .is_word = flag("single_word").value_or(false),
          .strips_left = flag("lstrip").value_or(false),
          .strips_right = flag("rstrip").value_or(false),
          .normalized = flag("normalized")};
}

SpecialToken TokenReader::special(const StatedJson& stated, const std::string& key) const {
  if (stated.is_string()) return {.token = {.text = stated.get<std::string>()}, .is_text = true};
  if (stated.is_object()) return {.token = token(stated, key), .is_text = false};
  refuse(key, "a text, or an object with \"content\"", stated);
}

void TokenReader::refuse(const std::string& key, const std::string& expected,
                         const StatedJson& received) const {
  throw usage_error(operation_, expected + " for " + key, short_form(received),
                    whole_tokenizer_folder);
}

bool is_marked_token(const StatedJson& stated) {
  return stated.is_object() && stated.value("__type", StatedJson()) == "AddedToken";
}

}  // namespace accrue::data
