#pragma once

#include <cstdint>

#include "accrue/data/source.h"

namespace accrue::data {

/// The data in the first bytes of an encoded image (PNG, JPEG).
struct ImageHeader {
  /// Grey with alpha is grey (1 channel), colour with alpha or a palette is colour (3).
  ImageShape shape;
  /// The most bytes that decoding holds, besides the encoded ones.
  std::int64_t decoding_bytes = 0;
};

}  // namespace accrue::data
