#pragma once

#include <cstddef>

#include "kernels/element.h"
#include "kernels/mask.h"

namespace accrue::kernels::rows {

/// to[rows, columns] = added + from times the mask and its scale; row i has the mask's row
/// `first_row` + i. All are dense.
struct DroppedRows {
  Element from_type, to_type;  ///< equal, or bf16 and fp32 in either order
  std::size_t first_row, rows, columns;
  const void* added;  ///< of to_type; null: none
  const void* from;
  void* to;
  DropoutMask mask;
};

void drop(const DroppedRows& task);

/// out[size] = x + y in fp32, y in bf16.
void add(const float* x, const Bf16* y, float* out, std::size_t size);

}  // namespace accrue::kernels::rows
