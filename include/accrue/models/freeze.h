#pragma once

#include <string>
#include <vector>

#include "accrue/models/trainable.h"

namespace accrue::models {

/// Freezes the parameters that match a pattern (core/name_pattern.h): they have no gradient, no
/// optimizer state and no products for one. Throws a usage Error that lists the parameters if a
/// pattern matches none of them, or if all parameters would be frozen.
void freeze_parameters(const Trainable& model, const std::vector<std::string>& patterns);

/// The number of elements of the trained parameters.
std::int64_t trained_parameter_count(const Trainable& model);

}  // namespace accrue::models
