#include "observe/history/run_facts.h"

#include "core/json_extent.h"

namespace accrue::observe {

nlohmann::json parse_json(const std::string& text) {
  const bool is_deep = extent_of_json(text).depth > kDeepestJson;
  return nlohmann::json::parse(is_deep ? "" : text, nullptr, /*allow_exceptions=*/false);
}

nlohmann::json parse_run_json(const std::string& text) {
  nlohmann::json parsed = parse_json(text);
  return parsed.is_object() ? parsed : nlohmann::json::object();
}

const nlohmann::json& fact(const nlohmann::json& object, const char* name) {
  static const nlohmann::json nothing;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? nothing : *found;
}

std::optional<std::int64_t> count_of(const nlohmann::json& value) {
  constexpr std::uint64_t most = std::uint64_t{1} << 53U;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) return std::nullopt;
  return value.get<std::int64_t>();
}

std::string printed(const nlohmann::json& value) {
  // Names of files may be any bytes.
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace accrue::observe
