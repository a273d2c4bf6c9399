#include "observe/tensorboard/crc32c.h"

#include <isa-l/crc.h>

namespace accrue::observe {

std::uint32_t masked_crc32c(std::string_view bytes) {
  // ISA-L takes bytes that it only reads without const, and the caller has to invert.
  auto* const data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  const std::uint32_t crc = ~::crc32_iscsi(data, static_cast<int>(bytes.size()), ~0U);
  constexpr std::uint32_t kMaskDelta = 0xa282ead8;
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

}  // namespace accrue::observe
