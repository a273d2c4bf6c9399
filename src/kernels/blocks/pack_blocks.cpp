#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/blocks/blocks.h"

namespace accrue::kernels {

void pack_q8_0(const float* values, std::int64_t count, void* blocks) {
  constexpr BlockSize size = size_of(BlockFormat::q8_0);
  auto* to = static_cast<unsigned char*>(blocks);
  for (std::int64_t block = 0; block < count; ++block, values += size.elements, to += size.bytes) {
    float largest = 0;
    for (std::int64_t i = 0; i < size.elements; ++i)
      largest = std::max(largest, std::abs(values[i]));
    const float scale = largest / 127;
    const float inverse = scale == 0 ? 0 : 1 / scale;
    const c10::Half stored(scale);
    std::memcpy(to, &stored, sizeof stored);
    for (std::int64_t i = 0; i < size.elements; ++i) {
      const auto number = static_cast<std::int8_t>(std::round(values[i] * inverse));
      std::memcpy(to + sizeof stored + i, &number, sizeof number);
    }
  }
}

}  // namespace accrue::kernels
