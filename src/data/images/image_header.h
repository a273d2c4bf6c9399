#pragma once

#include <cstdint>

#include "accrue/data/source.h"

namespace accrue::data {

/// What the first bytes of an encoded image (PNG, JPEG) tell.
struct ImageHeader {
  /// Grey with alpha is grey (1 channel), colour with alpha or a palette is colour (3).
  ImageShape shape;
  /// What decoding holds at most, beside the encoded bytes.
  std::int64_t decoding_bytes = 0;
};

}  // namespace accrue::data
