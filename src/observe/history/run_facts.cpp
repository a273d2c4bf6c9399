#include "observe/history/run_facts.h"

namespace accrue::observe {

nlohmann::json parse_run_json(const std::string& text) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? parsed : nlohmann::json::object();
}

const nlohmann::json& fact(const nlohmann::json& object, const char* name) {
  static const nlohmann::json nothing;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? nothing : *found;
}

std::string printed(const nlohmann::json& value) {
  // Names of files may be any bytes.
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace accrue::observe
