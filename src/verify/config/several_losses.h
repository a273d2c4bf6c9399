#pragma once

#include <optional>

#include "accrue/accum/loss_totals.h"
#include "accrue/models/model.h"
#include "data/loader.h"
#include "train/pass/forward_backward.h"
#include "verify/subject.h"

namespace accrue::proof {

/// The total weights of a model's losses over the samples of `parts`, if it has several that can be
/// computed from the labels; nothing for a single loss, whose sum needs no other's weight.
std::optional<LossTotals> loss_totals(models::Model& model, const data::Loader& loader,
                                      const Parts& parts);
std::optional<LossTotals> loss_totals(models::Model& model, const batch::MicroBatch& micro);

/// How a pass adds up losses with these totals.
train::PassOptions pass_options(const std::optional<LossTotals>& totals, double weighting);

/// The losses of a micro-batch in one graph, added up by `totals`, or by their coefficients.
Loss loss_of(models::Model& model, const batch::MicroBatch& micro, const ForwardContext& context,
             const std::optional<LossTotals>& totals, double weighting);

}  // namespace accrue::proof
