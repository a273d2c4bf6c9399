#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace accrue::data {

/// GPT-2's bytes_to_unicode (Radford et al. 2019, encoder.py): a printable character for every
/// byte.
const std::array<std::string, 256>& byte_characters();

/// The bytes that such characters represent; none if the text has another character.
std::optional<std::string> bytes_shown_by(std::string_view characters);

}  // namespace accrue::data
