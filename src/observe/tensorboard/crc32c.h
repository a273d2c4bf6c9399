#pragma once

#include <cstdint>
#include <string_view>

namespace accrue::observe {

/// The CRC-32C of `bytes` (RFC 3720, B.4), masked as in TFRecord files: a checksum of data with an
/// embedded checksum is weak.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace accrue::observe
