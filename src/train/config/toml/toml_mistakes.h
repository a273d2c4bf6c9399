#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accrue::train {

/// What a line of a config should have been.
struct Correction {
  std::string expected;  ///< what TOML asks for: "quotes around a text"
  std::string line;      ///< the line as it should be; may still be wrong elsewhere
};

/// `line` ("kind = adamw", or a line inside an array) with quotes around the texts that lack them
/// and true and false as TOML spells them; nothing if it lacks neither. Numbers that are
/// misspelt are left alone.
std::optional<Correction> corrected(const std::string& line);
/// Corrects what stands behind a '=' in the same way.
std::optional<Correction> corrected_value(const std::string& value);

/// Whether `line` states one of the words that other formats have for no value.
bool states_null(const std::string& line);

/// "YAML" or "JSON" if a text that is not TOML is one of them; nothing for other texts.
std::optional<std::string> other_format(std::string_view text);

}  // namespace accrue::train
