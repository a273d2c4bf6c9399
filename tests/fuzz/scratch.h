#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "fuzz_targets.h"

namespace accrue::fuzz {

/// A folder of this process below TMPDIR. Whoever starts the program removes it (scripts/fuzz.sh).
std::filesystem::path scratch(const std::string& name);

/// `content` as the file `name` in it.
std::filesystem::path put(const std::string& name, Input content);

inline std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

inline Input bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace accrue::fuzz
