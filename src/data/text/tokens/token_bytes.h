#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace accrue::data {

/// Bytes of an id in files of tokens: 2 if all ids of the vocabulary fit, else 4.
inline std::int64_t token_width(std::int64_t vocab) {
  constexpr std::int64_t most_of_two = 65'535;  // where llm.c also changes its header
  return vocab <= most_of_two ? 2 : 4;
}

template <class Token>
void append_ids(std::span<const std::int64_t> ids, std::string& bytes) {
  const std::size_t known = bytes.size();
  bytes.resize(known + ids.size() * sizeof(Token));
  char* place = bytes.data() + known;
  for (const std::int64_t id : ids) {
    const auto token = static_cast<Token>(id);
    std::memcpy(place, &token, sizeof token);
    place += sizeof token;
  }
}

/// Appends ids of `width` (token_width) bytes each, little-endian.
inline void append_ids(std::span<const std::int64_t> ids, std::int64_t width, std::string& bytes) {
  width == 2 ? append_ids<std::uint16_t>(ids, bytes) : append_ids<std::uint32_t>(ids, bytes);
}

}  // namespace accrue::data
