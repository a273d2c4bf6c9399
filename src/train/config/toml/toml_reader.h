#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/toml/value.h"

namespace accrue::train {

/// One statement of a config: the dotted path of its key, its value, and its position.
struct Entry {
  std::string path;
  Value value;
  std::string position;             ///< "run.toml:3:7", or the override as typed
  std::optional<std::string> bare;  ///< an override's text behind the '='
};

/// All leaves of a TOML document, in order of their keys; an empty table is an entry as well.
/// Throws a usage Error with `origin`:line:column if the text is not TOML, or has a number that
/// does not fit into 64 bits.
std::vector<Entry> read_toml(const std::string& text, const std::string& origin);

/// The leaves of "section.key=value". The value is TOML, or a string if it is a bare word; a number
/// that does not fit into 64 bits becomes an Other, as the bare word may be meant as a text. Throws
/// a usage Error if the text does not have this form.
std::vector<Entry> read_override(const std::string& text);

/// Whether one of `overrides` ("section.key=value") states `key`, by its full name.
bool overrides_state(const std::vector<std::string>& overrides, const std::string& key);

}  // namespace accrue::train
