#pragma once

#include <string>
#include <vector>

#include "accrue/models/trainable.h"

namespace accrue::models {

/// Takes the gradient from the parameters that a pattern matches (core/name_pattern.h): they get
/// no gradient, no optimizer state and no products for one. Throws a usage Error if a pattern
/// matches no parameter, with what there is, or where all are frozen then.
void freeze_parameters(const Trainable& model, const std::vector<std::string>& patterns);

/// Elements of the parameters that are trained.
std::int64_t trained_parameter_count(const Trainable& model);

}  // namespace accrue::models
