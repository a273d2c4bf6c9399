#pragma once

#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// Whether the two hold the same numbers, perhaps in other dtypes. Reads both.
bool same_values(const StoredTensor& one, const StoredTensor& other);

}  // namespace accrue::models
