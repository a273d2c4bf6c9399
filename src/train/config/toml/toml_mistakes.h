#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accrue::train {

/// A corrected line of a config.
struct Correction {
  std::string expected;  ///< the TOML rule: "quotes around a text"
  std::string line;      ///< the corrected line; may still have other mistakes
};

/// `line` ("kind = adamw", or a line inside an array) with quotes around the texts that lack them
/// and with true and false in TOML's spelling; none if nothing was to be changed. Misspelt numbers
/// are left alone.
std::optional<Correction> corrected(const std::string& line);
/// Corrects the text after a '=' in the same way.
std::optional<Correction> corrected_value(const std::string& value);

/// `line` with straight quotes in place of typographic ones; none if it has none of these.
std::optional<Correction> with_straight_quotes(const std::string& line);

/// `line` ("layers 2", "lr: 0.002") with a '=' between its key and its value; none if it has a '=',
/// or is not of this form.
std::optional<Correction> with_equals_sign(const std::string& line);

/// `line` ("[optim") with the ']' that closes the name of a section; none if it has one, or is no
/// such line.
std::optional<Correction> with_closed_header(const std::string& line);

/// Whether a quote that `line` opens is not closed in it.
bool leaves_quote_open(const std::string& line);

/// Whether `line` states one of the words that other formats use for null.
bool states_null(const std::string& line);

/// Whether the first statement of a text that is not TOML has several words and no '=', as a text
/// to train on.
bool is_prose(std::string_view text);

/// "YAML" or "JSON" if a text that is not TOML is one of them; none for other texts.
std::optional<std::string> other_format(std::string_view text);

}  // namespace accrue::train
