#include "observe/history/run_config.h"

#include <map>
#include <sstream>

#include "observe/history/run_facts.h"
#include "observe/history/run_history.h"

namespace accrue::observe {
namespace {

using nlohmann::json;

/// The value after "KEY = " in config.toml: its strings, numbers and lists are JSON as well.
json config_value(const std::string& text) {
  json value = parse_json(text);
  return value.is_discarded() ? json(text) : value;
}

/// Reads config.toml in the form that accrue writes: "[SECTION]", and a line for each key.
json read_written_config(const std::string& config_toml) {
  json config = json::object();
  std::string section;
  std::istringstream lines(config_toml);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find(" = ");
    if (line.starts_with('[') && line.ends_with(']'))
      section = line.substr(1, line.size() - 2);
    else if (equals != std::string::npos)
      config[section][line.substr(0, equals)] = config_value(line.substr(equals + 3));
  }
  return config;
}

/// Adds the values in `object` under their dotted names, which begin with `prefix`.
void flatten(const json& object, const std::string& prefix,
             std::map<std::string, std::string>& flat) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      flatten(value, prefix + key + ".", flat);
    else
      flat[prefix + key] = value.is_string() ? value.get<std::string>() : printed(value);
  }
}

}  // namespace

json config_of(const json& run, const std::string& config_toml) {
  const json& config = fact(run, "config");
  return config.is_object() ? config : read_written_config(config_toml);
}

std::map<std::string, std::string> flat_config(const RunHistory& run) {
  std::map<std::string, std::string> flat;
  flatten(config_of(parse_run_json(run.run_json), run.config_toml), "", flat);
  return flat;
}

}  // namespace accrue::observe
