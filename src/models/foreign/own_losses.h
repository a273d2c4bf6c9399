#pragma once

#include <string>
#include <vector>

#include "accrue/models/torch_module.h"
#include "accrue/models/trainable.h"

namespace accrue::models {

/// A segment's own losses as its output: for each its sum and, as a tensor, its weight. Throws a
/// usage Error that names their `owner` if one is not a scalar with a weight.
Activations activations_of(const std::vector<Loss>& losses, const std::string& owner);

/// The heads that read a segment's own losses, in their order.
std::vector<LossHead> heads_of_own_losses(const std::vector<NamedLoss>& named);

}  // namespace accrue::models
