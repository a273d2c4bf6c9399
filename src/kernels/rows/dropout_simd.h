#pragma once

#include <cstddef>

#include "kernels/element.h"
#include "kernels/mask.h"

namespace accrue::kernels::rows {

/// to[rows, columns] = from times the mask and its scale; row i has the mask's row `first_row` + i.
struct DroppedRows {
  Element type;
  std::size_t first_row, rows, columns;
  const void* from;  ///< dense
  void* to;          ///< dense
  DropoutMask mask;
};

void drop(const DroppedRows& task);

}  // namespace accrue::kernels::rows
