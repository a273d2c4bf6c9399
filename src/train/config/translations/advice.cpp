#include "train/config/translations/advice.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/words.h"
#include "train/config/alternatives.h"

namespace accrue::train {
namespace {

const Entry* find_statement(const Statements& statements, const std::string& key) {
  // Overrides come last, and the last one holds.
  const auto found = std::find_if(statements.rbegin(), statements.rend(),
                                  [&](const Entry& entry) { return entry.path == key; });
  return found == statements.rend() ? nullptr : &*found;
}

/// The value for `statement` that follows from a statement under another system's name.
std::optional<std::string> translated_value(const Statement& statement,
                                            const Statements& statements) {
  for (const Entry& entry : statements) {
    const auto foreign = find_foreign(entry.path);
    if (!foreign) continue;
    for (const Statement& other : foreign->row->statements)
      if (std::string_view(other.key) == statement.key)
        if (auto text = carried(other, entry.value)) return text;
  }
  return std::nullopt;
}

/// A key with its value in TOML; `is_stated` says whether the config has it already.
struct Line {
  std::string key, value;
  bool is_stated = false;
};

/// The second key that a row needs, such as the size with the number of micro-batches.
Line second_line(const Statement& statement, const std::string& usual,
                 const Statements& statements) {
  const Entry* own = find_statement(statements, statement.key);
  if (own != nullptr && statement.own_value_holds && statement.own_value_holds(own->value))
    return {statement.key, to_toml(own->value), true};
  return {statement.key, translated_value(statement, statements).value_or(usual)};
}

Line first_line(const Statement& statement, const std::string& value,
                const Statements& statements) {
  const Entry* own = find_statement(statements, statement.key);
  return {statement.key, value, own != nullptr && to_toml(own->value) == value};
}

/// The lines to state for a row; empty if nothing needs to be stated.
std::vector<Line> lines_of(const Translation& row, const Value& value,
                           const Statements& statements) {
  std::vector<Line> lines;
  for (const Statement& statement : row.statements) {
    const auto usual = value_for(statement, value);
    if (!usual) return {};
    lines.push_back(statement.own_value_holds ? second_line(statement, *usual, statements)
                                              : first_line(statement, *usual, statements));
  }
  return lines;
}

/// A word of TOML as a shell passes it on: text without its quotes if it needs none.
std::string as_override(const Line& line) {
  const auto is_plain = [](const std::string& text) {
    return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view("._-+%").find(static_cast<char>(c)) != std::string_view::npos;
    });
  };
  std::string value = line.value;
  if (value.size() > 2 && value.front() == '"') {
    const std::string inner = value.substr(1, value.size() - 2);
    if (is_plain(inner)) value = inner;
  }
  const std::string text = "--" + line.key + "=" + value;
  return is_plain(value) ? text : "'" + text + "'";
}

std::string on_command_line(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) text += (text.empty() ? "" : " ") + as_override(line);
  return text;
}

std::string in_file(const std::vector<Line>& lines) {
  std::vector<std::string> sections, statements;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t dot = lines[i].key.find('.');
    const std::string section = lines[i].key.substr(0, dot);
    statements.push_back(lines[i].key.substr(dot + 1) + " = " + lines[i].value);
    if (i + 1 < lines.size() && lines[i + 1].key.starts_with(section + ".")) continue;
    sections.push_back("under [" + section + "]: " + listed(statements, "and"));
    statements.clear();
  }
  return listed(sections, "and");
}

std::string dotted(const Line& line) { return line.key + " = " + line.value; }

/// The file's present statements of the keys to state, or of keys that these exclude.
std::vector<std::string> replaced_by(const std::vector<Line>& lines, const Statements& statements) {
  std::vector<std::string> replaced;
  for (const Line& line : lines) {
    if (const Entry* own = find_statement(statements, line.key))
      replaced.push_back(line.key + " = " + to_toml(own->value));
    for (const std::string& other : alternatives_to(line.key))
      if (find_statement(statements, other) != nullptr) replaced.push_back(other);
  }
  return replaced;
}

std::string in_brackets(const std::string& remark) {
  return remark.empty() ? "" : " (" + remark + ")";
}

}  // namespace

std::string advice_for(const Translation& row, const Value& value, Medium medium,
                       const Statements& statements) {
  if (row.statements.empty()) return row.remark;
  const std::vector<Line> lines = lines_of(row, value, statements);
  if (lines.empty())
    return std::string("leaving it out, as it is so unless ") + row.statements.front().key +
           " is stated";
  std::vector<Line> missing;
  std::vector<std::string> kept;
  for (const Line& line : lines) {
    if (!line.is_stated) missing.push_back(line);
    if (line.is_stated) kept.push_back(dotted(line));
  }
  if (missing.empty()) return "leaving it out, as the config has " + listed(kept, "and");
  std::string text = medium == Medium::file ? in_file(missing) : on_command_line(missing);
  if (!kept.empty()) text += " beside " + listed(kept, "and");
  const std::vector<std::string> replaced = replaced_by(missing, statements);
  if (!replaced.empty()) text += " in place of " + listed(replaced, "and");
  return text + in_brackets(row.remark);
}

}  // namespace accrue::train
