#pragma once

#include <string>
#include <vector>

#include "accrue/models/loss_options.h"
#include "accrue/models/script_loss.h"
#include "accrue/models/trainable.h"

namespace accrue::models {

/// The outputs that losses read, each once, in their order: a segment passes these to them.
std::vector<std::string> outputs_read(const std::vector<ScriptLoss>& losses);

/// The losses as heads on these outputs, each with its own denominator; `options` apply to the
/// cross-entropies, in training.
std::vector<LossHead> heads_on_outputs(const std::vector<ScriptLoss>& losses,
                                       const LossOptions& options);

}  // namespace accrue::models
