#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "accrue/distributed/group.h"

namespace accrue::train {

/// Representations of all ranks' samples.
struct Gathered {
  std::vector<at::Tensor> towers;  ///< [rows, ...] each, in order of rank
  std::int64_t begin = 0;          ///< this rank's first row
  std::int64_t rows = 0;
};

/// Gathers each tower's rows; `own` has `rows` rows in each tower, and is empty on a rank without
/// rows. Collective. Throws a usage Error, on all ranks, if no rank has any, or towers differ in
/// number, dtype or shape.
Gathered gather_rows(distributed::Group& group, const std::vector<at::Tensor>& own,
                     std::int64_t rows);

}  // namespace accrue::train
