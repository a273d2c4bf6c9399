#pragma once

#include <cstdint>
#include <string_view>

namespace accrue::observe {

/// The CRC-32C of `bytes` (RFC 3720, B.4), masked as TFRecord files have it: a checksum of what
/// holds its own checksum says little.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace accrue::observe
