#pragma once

#include <string>

#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// Copies `given` into `targets` by name, one after the other, converting floating-point dtypes.
/// Throws a usage Error, naming `origin` and the first tensor that is missing, extra, twice or
/// misshapen, and changes nothing then. `what` says what fits ("weights of a ResNet of this
/// shape").
void copy_by_name(const NamedParameters& targets, const StoredTensors& given,
                  const std::string& origin, const std::string& what);

}  // namespace accrue::models
