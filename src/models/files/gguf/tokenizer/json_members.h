#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace accrue::models {

/// A member of an object; null for everything else.
inline const nlohmann::json& member(const nlohmann::json& of, const char* name) {
  static const nlohmann::json none;
  if (!of.is_object()) return none;
  const auto found = of.find(name);
  return found == of.end() ? none : *found;
}

/// The text of a member; empty if it is not a text.
inline std::string text_in(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

/// Whether a member is true; `otherwise` if it is neither true nor false.
inline bool flag_in(const nlohmann::json& object, const char* name, bool otherwise) {
  const nlohmann::json& value = member(object, name);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

}  // namespace accrue::models
