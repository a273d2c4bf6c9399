#pragma once

#include <cstdint>

namespace accrue::data {

/// Text is read as its bytes.
inline constexpr std::int64_t byte_vocab = 256;

}  // namespace accrue::data
