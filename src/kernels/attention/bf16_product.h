#pragma once

#include <cstddef>

#include "kernels/element.h"

namespace accrue::kernels::bf16_attention {

/// c[rows, columns] (+)= a[rows, depth] · b, b as pairs of `b_stride` columns.
struct Product {
  std::size_t rows, columns, depth;
  const Bf16* a;
  std::size_t a_stride;
  const Bf16* b;
  std::size_t b_stride;
  float* c;
  std::size_t c_stride;
};

/// libtorch's product of small matrices, which it compiles for each shape and leading dimension and
/// keeps as long as the thread lives. Call it within a TileScope.
void multiply(const Product& p, bool accumulate);

/// Products during its lifetime may use the processor's tile registers, if there are any; they are
/// released however the scope is left.
class TileScope {
 public:
  TileScope() = default;
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
  ~TileScope();
};

/// Whether `multiply` gives the right numbers here, tested with a product of small integers.
bool multiplies();

}  // namespace accrue::kernels::bf16_attention
