#include "train/config/translations/translations.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "accrue/core/error.h"
#include "core/nearest.h"
#include "core/words.h"
#include "train/config/key.h"
#include "train/config/names.h"

namespace accrue::train {
namespace {

using Rows = std::map<std::string, const Translation*, std::less<>>;

/// The rows of the table by other systems' names.
const Rows& rows_by_name() {
  static const Rows rows = [] {
    Rows found;
    for (const Translation* row : translations())
      for (const Users& users : row->users)
        for (const std::string& name : words_of(users.names)) found.emplace(name, row);
    return found;
  }();
  return rows;
}

std::optional<ForeignName> find_name(const std::string& name) {
  const auto at = rows_by_name().find(name);
  if (at == rows_by_name().end()) return std::nullopt;
  return ForeignName{at->first, at->second};
}

/// Of a name with '_' for '.': "lora.r" is "lora_r" in a section.
std::optional<ForeignName> find_in_section(std::string name) {
  std::ranges::replace(name, '.', '_');
  return find_name(name);
}

/// Whether the value turns off the feature of the key.
bool is_off(const Value& value) {
  if (const auto* flag = value.as<bool>()) return !*flag;
  if (const auto* integer = value.as<std::int64_t>()) return *integer == 0;
  const auto* word = value.as<std::string>();
  return word && (*word == "no" || *word == "none" || *word == "false");
}

}  // namespace

std::vector<std::string> words_of(const char* names) {
  std::istringstream stream{names};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

const std::vector<const Translation*>& translations() {
  static const std::vector<const Translation*> rows = [] {
    std::vector<const Translation*> all;
    for (const auto* part :
         {&translations_of_batches(), &translations_of_optimizers(), &translations_of_models(),
          &translations_of_data(), &translations_of_ranks()})
      for (const Translation& row : *part) all.push_back(&row);
    return all;
  }();
  return rows;
}

std::optional<ForeignName> find_foreign(const std::string& path) {
  const std::string normal = normalised(path);
  const bool is_ours = find_key(normal) != nullptr;
  for (std::size_t from = 0; from != std::string::npos;) {
    const std::string name = normal.substr(from);
    if (auto found = find_name(name)) return found;
    if (auto found = is_ours ? std::nullopt : find_in_section(name)) return found;
    const std::size_t dot = normal.find('.', from);
    from = dot == std::string::npos ? dot : dot + 1;
  }
  return std::nullopt;
}

std::optional<ForeignName> nearest_foreign(const std::string& path) {
  constexpr std::size_t shortest = 8, length_of_an_edit = 8;
  const std::string name = normalised(path.substr(path.rfind('.') + 1));
  if (name.size() < shortest) return std::nullopt;
  std::vector<std::string> names;
  for (const auto& [known, row] : rows_by_name()) names.push_back(known);
  const auto found = nearest_within(name.size() / length_of_an_edit, name, names);
  return found ? find_name(*found) : std::nullopt;
}

std::optional<ForeignName> enclosing_foreign(const std::string& path) {
  std::string section = path;
  for (std::size_t dot = section.rfind('.'); dot != std::string::npos; dot = section.rfind('.')) {
    section.resize(dot);
    if (is_section(section)) continue;
    if (auto found = find_foreign(section)) return found;
  }
  return std::nullopt;
}

std::optional<std::string> carried(const Statement& statement, const Value& value) {
  if (statement.carry == nullptr) return std::nullopt;
  const std::optional<Value> ours = statement.carry(value);
  if (!ours || !takes(*find_key(statement.key), *ours)) return std::nullopt;
  return to_toml(*ours);
}

std::optional<std::string> value_for(const Statement& statement, const Value& value) {
  if (auto text = carried(statement, value)) return text;
  if (!is_off(value)) return statement.example;
  if (statement.where_false != nullptr) return statement.where_false;
  // An amount of 0 is not a switch, but a value that the key does not take.
  if (value.as<bool>()) return std::nullopt;
  return statement.example;
}

std::vector<std::string> lines_for(const Translation& row, const Value& value) {
  std::vector<std::string> lines;
  for (const Statement& statement : row.statements) {
    const std::optional<std::string> ours = value_for(statement, value);
    if (!ours) return {};
    lines.push_back(std::string(statement.key) + " = " + *ours);
  }
  return lines;
}

std::string users_of(const ForeignName& foreign) {
  constexpr std::size_t named = 2;
  std::vector<std::string> systems;
  for (const Users& users : foreign.row->users) {
    const std::vector<std::string> names = words_of(users.names);
    if (std::find(names.begin(), names.end(), foreign.name) != names.end())
      systems.emplace_back(users.system);
  }
  if (systems.size() > named + 1) {
    systems.resize(named);
    systems.emplace_back("other systems");
  }
  return listed(systems, "and");
}

}  // namespace accrue::train
