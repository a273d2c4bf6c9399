#include "models/files/config/config_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/json_extent.h"

namespace accrue::models {

using nlohmann::json;

namespace {

/// None if `text` is broken, or nested so deep that walking it would need much stack.
std::optional<json> parsed(const std::string& text) {
  if (extent_of_json(text).depth > kDeepestJson) return std::nullopt;
  json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return std::nullopt;
  return root;
}

}  // namespace

ConfigFile::ConfigFile(const std::string& text, const std::string& file, const std::string& fitting)
    : file_(file), fitting_(fitting), root_(parsed(text).value_or(json())) {
  if (!root_.is_object())
    throw usage_error("load " + file_, "a JSON object", "something else or broken JSON",
                      "another folder");
}

const json* ConfigFile::find(const char* key) const {
  const auto found = root_.find(key);
  return found == root_.end() ? nullptr : &*found;
}

bool ConfigFile::is_null_or_absent(const char* key) const {
  const json* value = find(key);
  return value == nullptr || value->is_null();
}

bool ConfigFile::is_empty(const char* key) const {
  const json* value = find(key);
  return value == nullptr || (!value->is_primitive() && value->empty()) || value->is_null();
}

bool ConfigFile::is_flag(const char* key) const {
  const json* value = find(key);
  return value != nullptr && value->is_boolean();
}

std::int64_t ConfigFile::count(const char* key, std::int64_t least) const {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const json* value = find(key);
  if (value == nullptr) throw wrong(key, "a number", "no such key");
  const bool fits = value->is_number_integer() && *value >= least && *value <= most;
  if (!fits)
    throw wrong(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
                value->dump());
  return value->get<std::int64_t>();
}

std::int64_t ConfigFile::count_or(const char* key, std::int64_t usual, std::int64_t least) const {
  return is_null_or_absent(key) ? usual : count(key, least);
}

std::int64_t ConfigFile::count_unless_absent(const char* key, std::int64_t usual,
                                             std::int64_t least) const {
  return has(key) ? count(key, least) : usual;
}

double ConfigFile::positive(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) throw wrong(key, "a number", "no such key");
  const bool fits =
      value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() > 0;
  if (!fits) throw wrong(key, "a number greater than 0", value->dump());
  return value->get<double>();
}

double ConfigFile::positive_or(const char* key, double usual) const {
  return is_null_or_absent(key) ? usual : positive(key);
}

std::optional<double> ConfigFile::positive_if_any(const char* key) const {
  if (is_null_or_absent(key) || *find(key) == json(0)) return std::nullopt;
  return positive(key);
}

double ConfigFile::fraction_or(const char* key, double usual) const {
  if (is_null_or_absent(key)) return usual;
  const json* value = find(key);
  const bool fits = value->is_number() && value->get<double>() >= 0 && value->get<double>() < 1;
  if (!fits) throw wrong(key, "a number from 0 to below 1", value->dump());
  return value->get<double>();
}

bool ConfigFile::flag_or(const char* key, bool usual) const {
  if (is_null_or_absent(key)) return usual;
  const json* value = find(key);
  if (!value->is_boolean()) throw wrong(key, "true or false", value->dump());
  return value->get<bool>();
}

std::string ConfigFile::text(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) throw wrong(key, "a string", "no such key");
  if (!value->is_string()) throw wrong(key, "a string", value->dump());
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> ConfigFile::texts(const char* key) const {
  if (is_null_or_absent(key)) return std::nullopt;
  const json* value = find(key);
  const bool fits = value->is_array() && std::all_of(value->begin(), value->end(),
                                                     [](const json& x) { return x.is_string(); });
  if (!fits) throw wrong(key, "an array of strings", value->dump());
  return value->get<std::vector<std::string>>();
}

std::optional<ConfigFile> ConfigFile::object(const char* key) const {
  if (is_null_or_absent(key)) return std::nullopt;
  const json* value = find(key);
  if (!value->is_object()) throw wrong(key, "an object", value->dump());
  return stand_in(key, *value);
}

ConfigFile ConfigFile::stand_in(const char* key, json object) const {
  ConfigFile part;
  part.file_ = file_;
  part.fitting_ = fitting_;
  part.within_ = within_ + key + '.';
  part.root_ = std::move(object);
  return part;
}

void ConfigFile::require(const char* key, const json& expected) const {
  const json* value = find(key);
  if (value != nullptr && *value != expected) throw wrong(key, expected.dump(), value->dump());
}

void ConfigFile::require_none(const char* key) const {
  if (!is_null_or_absent(key)) throw wrong(key, "null, or no such key", find(key)->dump());
}

void ConfigFile::require_one_of(const char* key, const std::vector<std::string>& expected) const {
  const json* value = find(key);
  if (value == nullptr) throw wrong(key, expected.front(), "no such key");
  const std::string received = value->is_string() ? value->get<std::string>() : value->dump();
  if (std::find(expected.begin(), expected.end(), received) == expected.end())
    throw wrong(key, expected.front(), received);
}

Error ConfigFile::wrong(const std::string& key, const std::string& expected,
                        const std::string& received) const {
  return usage_error("load " + file_, within_ + key + " = " + expected, received.substr(0, 80),
                     fitting_);
}

}  // namespace accrue::models
