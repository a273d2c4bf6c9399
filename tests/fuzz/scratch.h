#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "fuzz_targets.h"

namespace accrue::fuzz {

/// A folder of this process in TMPDIR; the caller of the program removes it (scripts/fuzz.sh).
std::filesystem::path scratch(const std::string& name);

/// Writes `content` as the file `name` into it; returns its path.
std::filesystem::path put(const std::string& name, Input content);

inline std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

inline Input bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace accrue::fuzz
