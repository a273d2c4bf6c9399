#pragma once

#include <cstddef>
#include <string_view>

namespace accrue {

/// Readers process JSON recursively; no document of this field's tools is nested deeper.
inline constexpr std::size_t kDeepestJson = 32;

/// The extent of a JSON text, from its brackets, commas and quotes alone; also for invalid
/// text.
struct JsonExtent {
  std::size_t depth = 0;    ///< the deepest nesting of arrays and objects
  std::size_t members = 0;  ///< of the array or object that has the most
};

/// Runs in one pass, so that a text which would take long to parse is refused before: nlohmann's
/// parser with a callback takes time quadratic in the members of an object, also of an ordered one.
JsonExtent extent_of_json(std::string_view text);

}  // namespace accrue
