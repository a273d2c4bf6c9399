#include "train/config/config_json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "train/config/key.h"
#include "train/config/toml/value.h"

namespace accrue::train {
namespace {

using nlohmann::json;

json json_of(const Value& value) {
  if (const auto* array = value.as<Value::Array>()) {
    json list = json::array();
    for (const Value& item : *array) list.push_back(json_of(item));
    return list;
  }
  if (const auto* table = value.as<Value::Table>()) {
    json object = json::object();
    for (const Value::Field& field : *table) object[field.name] = json_of(field.value);
    return object;
  }
  if (const auto* flag = value.as<bool>()) return *flag;
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  if (const auto* real = value.as<double>()) return *real;
  if (const auto* text = value.as<std::string>()) return *text;
  return to_toml(value);
}

constexpr auto most_integer = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
/// Neither sections nor arrays of a config nest deeper.
constexpr int deepest = 4;

Value value_in(const json& stated, int depth) {
  if (stated.is_boolean()) return {stated.get<bool>()};
  if (stated.is_number_unsigned() && stated.get<std::uint64_t>() > most_integer)
    return {Value::Other{"integer beyond 64 bits", /*is_number=*/true}};
  if (stated.is_number_integer()) return {stated.get<std::int64_t>()};
  if (stated.is_number()) return {stated.get<double>()};
  if (stated.is_string()) return {stated.get<std::string>()};
  if (depth > deepest) return {Value::Other{stated.type_name()}};
  if (stated.is_object()) {
    Value::Table table;
    for (const auto& [name, item] : stated.items())
      table.push_back({name, value_in(item, depth + 1)});
    return {table};
  }
  if (!stated.is_array()) return {Value::Other{stated.type_name()}};
  Value::Array list;
  for (const json& item : stated) list.push_back(value_in(item, depth + 1));
  return {list};
}

/// Adds a line for each value, named by its path: `optim.schedule.kind = "cosine"`.
void add_lines(const json& object, const std::string& path, int depth, std::string& toml) {
  for (const auto& [name, value] : object.items()) {
    const std::string key = path.empty() ? name : path + "." + name;
    if (value.is_object() && depth < deepest)
      add_lines(value, key, depth + 1, toml);
    else
      toml += key + " = " + to_toml(value_in(value, depth)) + "\n";
  }
}

}  // namespace

json to_json(const Config& config) {
  json sections = json::object();
  for (const Key& key : keys()) {
    if (!is_read(key, config)) continue;
    const auto value = key.get(config);
    if (!value) continue;
    std::string path = "/" + key.name;
    for (char& c : path) c = c == '.' ? '/' : c;
    sections[json::json_pointer(path)] = json_of(*value);
  }
  return sections;
}

Config config_from_json(const json& sections, const std::string& origin,
                        const std::vector<std::string>& overrides) {
  if (!sections.is_object())
    throw usage_error("read the config in " + origin, "an object of sections", sections.type_name(),
                      "the run's config.toml");
  std::string toml;
  add_lines(sections, "", 0, toml);
  return parse_config(toml, "the config in " + origin, overrides, ConfigOrigin::run);
}

}  // namespace accrue::train
