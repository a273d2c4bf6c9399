#include "train/ranks/outer_settings.h"

namespace accrue::train {

bool has_usual_outer_rates(const DistConfig& dist) {
  return dist.takes_outer_steps() && !dist.outer_lr && !dist.outer_momentum;
}

distributed::OuterOptions outer_settings(const DistConfig& dist) {
  const distributed::OuterRates rates = has_usual_outer_rates(dist)
                                            ? distributed::usual_outer_rates(dist.local_steps)
                                            : distributed::OuterRates{};
  return {.local_steps = dist.local_steps,
          .lr = dist.outer_lr.value_or(rates.lr),
          .momentum = dist.outer_momentum.value_or(rates.momentum),
          .parts = dist.outer_parts,
          .delay = dist.outer_delay};
}

}  // namespace accrue::train
