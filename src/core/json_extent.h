#pragma once

#include <cstddef>
#include <string_view>

namespace accrue {

/// Readers walk through JSON by recursion; what lies deeper is no document of this field's tools.
inline constexpr std::size_t kDeepestJson = 32;

/// How far a JSON text reaches, by its brackets, commas and quotes alone: also of a text that is
/// none.
struct JsonExtent {
  std::size_t depth = 0;    ///< arrays and objects within each other, at most
  std::size_t members = 0;  ///< of the array or object that has the most
};

/// In one pass, so that a text which would take long to parse is refused before: nlohmann's parser
/// with a callback takes time quadratic in the members of an object, and an ordered object, too.
JsonExtent extent_of_json(std::string_view text);

}  // namespace accrue
