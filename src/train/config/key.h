#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/config.h"
#include "train/config/toml/value.h"

namespace accrue::train {

/// A value as the user stated it.
struct Stated {
  Value value;
  std::optional<std::string> bare;  ///< an override's text as typed
  std::string where;                ///< its name in errors: "config key optim.lr (run.toml:3:7)"
  bool by_run = false;              ///< in the config.toml of a run, perhaps of an earlier version
};

/// A condition under which configs read a key.
struct Reader {
  std::string with;     ///< for people: `optim.kind = "sgd" or "rmsprop"`
  std::string reason;   ///< why only these, for people; empty if `with` is enough
  std::string decider;  ///< the key that decides it
  std::function<bool(const Config&)> holds;
};

/// The beginning of a row in the table of keys.
struct KeyName {
  std::string name;     ///< "optim.schedule.warmup"
  std::string meaning;  ///< one sentence for people, as `accrue keys` prints it
};

/// One row of the table of keys: everything the parser, the printer and the errors use of a key.
struct Key : KeyName {
  std::string expected;  ///< the values that are valid, in words
  /// Checks and stores a value. Throws a usage Error; the config is then unchanged.
  std::function<void(const Stated&, Config&)> set;
  /// A config's value; none if it states none, or if this version does not have the key.
  std::function<std::optional<Value>(const Config&)> get;
  bool may_change_on_resume = false;
  bool in_this_version = true;
  /// A config reads the key if all of these hold; none: every config does.
  std::vector<Reader> read_by = {};
};

/// The first condition that this config does not meet; null if the config reads the key.
const Reader* missing_reader(const Key& key, const Config& config);
inline bool is_read(const Key& key, const Config& config) {
  return missing_reader(key, config) == nullptr;
}
/// The config's value of a key that it reads; none if it states none, or does not read the key.
inline std::optional<Value> read_value(const Key& key, const Config& config) {
  return is_read(key, config) ? key.get(config) : std::nullopt;
}

/// Whether this value is valid for `key`.
bool takes(const Key& key, const Value& value);

/// The table, in the order of docs/design.md, section 5.
const std::vector<Key>& keys();
/// The key of this name, or null.
const Key* find_key(const std::string& name);

}  // namespace accrue::train
