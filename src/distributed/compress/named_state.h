#pragma once

#include <string>

#include "accrue/core/stored_tensor.h"

namespace accrue::distributed {

/// Copies `given` into `own` by name. Throws a usage Error of `operation` that names the first
/// tensor that is missing, extra or misshapen, and changes nothing then.
void load_by_name(const NamedParameters& own, const StoredTensors& given,
                  const std::string& operation);

/// "Float [3, 4]": a tensor's dtype and shape, for messages.
std::string in_words(at::ScalarType dtype, at::IntArrayRef shape);

}  // namespace accrue::distributed
