#pragma once

#include <cstddef>
#include <string_view>

namespace accrue::data {

/// The kind of a text by its first bytes, if it is not stated.
enum class SniffedFormat {
  text,
  json_lines,     ///< its first line is an object of JSON
  json_document,  ///< JSON that goes over several lines, a list of objects, or a broken line of it
  unclear         ///< more bytes are needed
};

/// After this many bytes it is clear, or never.
inline constexpr std::size_t most_sniffed_bytes = std::size_t{1} << 20;

/// `is_all`: nothing follows these bytes. Blank lines at the beginning are skipped.
SniffedFormat sniff_format(std::string_view bytes, bool is_all);

}  // namespace accrue::data
