#include "train/config/translations/unknown_key.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "accrue/train/config.h"
#include "core/words.h"
#include "train/config/key.h"
#include "train/config/names.h"
#include "train/config/translations/translations.h"

namespace accrue::train {
namespace {

/// The key that `path` reaches into ("optim.lr" for "optim.lr.value"), or null.
const Key* key_above(const std::string& path) {
  for (std::size_t dot = path.rfind('.'); dot != std::string::npos && dot > 0;
       dot = path.rfind('.', dot - 1))
    if (const Key* key = find_key(path.substr(0, dot))) return key;
  return nullptr;
}

Medium medium_of(const Entry& entry) { return entry.bare ? Medium::command_line : Medium::file; }

Error foreign_name(const std::string& place, const ForeignName& foreign,
                   const std::string& advice) {
  return usage_error(place, "a key of accrue", "a name of " + users_of(foreign), advice);
}

/// The key to state instead, as the entry was stated: in a file, or as an override with its value.
std::string described(const Key& key, const Entry& entry) {
  if (!key.in_this_version) return "leaving it out: " + key.name + " is not in this version";
  return entry.bare ? "--" + key.name + "=" + *entry.bare : key.name;
}

/// Keys of this version in `section`, without its name; those of deeper sections with theirs.
std::vector<std::string> keys_of(const std::string& section) {
  std::vector<std::string> names;
  for (const Key& key : keys())
    if (key.in_this_version && key.name.starts_with(section + "."))
      names.push_back(key.name.substr(section.size() + 1));
  return names;
}

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    const std::string section = key.name.substr(0, key.name.find('.'));
    if (key.in_this_version && (names.empty() || names.back() != section)) names.push_back(section);
  }
  return names;
}

/// The kind that a value in place of a whole table was meant to be; null if it is not one.
const Key* kind_meant(const Entry& entry) {
  const Key* kind = find_key(entry.path + ".kind");
  return kind != nullptr && takes(*kind, entry.value) ? kind : nullptr;
}

/// The key to state instead of a value if a table is expected: the kind that it names, or any.
std::string key_in_table(const Entry& entry) {
  const Key* kind = kind_meant(entry);
  if (!kind && !entry.bare) return "[" + entry.path + "] with its keys below";
  if (!kind)
    return "--" + entry.path + ".KEY=VALUE with one of the keys " +
           listed(keys_of(entry.path), "or");
  if (entry.bare) return "--" + kind->name + "=" + *entry.bare;
  return "[" + entry.path + "] with its keys below: kind = " + to_toml(entry.value);
}

/// The existing keys, if none is similar.
std::string what_there_is(const std::string& path) {
  const std::string section = path.substr(0, path.find('.'));
  const std::vector<std::string> names = keys_of(section);
  if (!names.empty()) return "one of the keys of [" + section + "]: " + listed(names, "or");
  return "a key of one of the sections " + listed(sections(), "or") + " (docs/guide/config.md)";
}

/// The value of a word after a name; true for a name without a value. A word that only begins like
/// TOML is a text.
Value value_of_word(const std::optional<std::string>& word) {
  if (!word || word->empty()) return {true};
  try {
    return read_override("value=" + *word).front().value;
  } catch (const Error&) {
    return {*word};
  }
}

}  // namespace

std::optional<ForeignKey> foreign_key(const std::string& name,
                                      const std::optional<std::string>& value) {
  const auto foreign = find_foreign(name);
  if (!foreign) return std::nullopt;
  return ForeignKey{users_of(*foreign),
                    advice_for(*foreign->row, value_of_word(value), Medium::command_line)};
}

Error unknown_key(const Entry& entry, const std::string& place, const Statements& all) {
  const auto advice = [&](const ForeignName& foreign, const Value& value) {
    return advice_for(*foreign.row, value, medium_of(entry), all);
  };
  if (const auto foreign = find_foreign(entry.path))
    return foreign_name(place, *foreign, advice(*foreign, entry.value));
  if (const Key* key = key_above(entry.path))
    return usage_error(place, key->name + " to be " + key->expected, "a table",
                       "a value instead of a table");
  if (is_section(entry.path))
    return usage_error(place, "a table of keys", describe(entry.value), key_in_table(entry));
  if (const Key* key = nearest_key(entry.path))
    return usage_error(place, "a known key", "an unknown one", described(*key, entry));
  if (const auto foreign = nearest_foreign(entry.path))
    return usage_error(place, "a known key",
                       "an unknown one, near " + foreign->name + " of " + users_of(*foreign),
                       advice(*foreign, entry.value));
  // The value belongs to another system's section.
  if (const auto foreign = enclosing_foreign(entry.path))
    return foreign_name(place, *foreign, advice(*foreign, Value{true}));
  return usage_error(place, "a known key", "an unknown one", what_there_is(entry.path));
}

}  // namespace accrue::train
