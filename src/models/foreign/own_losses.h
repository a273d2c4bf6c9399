#pragma once

#include <string>
#include <vector>

#include "accrue/models/torch_module.h"
#include "accrue/models/trainable.h"

namespace accrue::models {

/// Losses that a segment made, as what it passes on: of each its sum and, as a tensor, its weight.
/// Throws a usage Error, `owner` being whose losses they are, where one is no scalar with a weight.
Activations activations_of(const std::vector<Loss>& losses, const std::string& owner);

/// The heads that read losses which a segment made, in their order.
std::vector<LossHead> heads_of_own_losses(const std::vector<NamedLoss>& named);

}  // namespace accrue::models
