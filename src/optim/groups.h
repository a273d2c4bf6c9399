#pragma once

#include <vector>

#include "accrue/optim/optimizer.h"

namespace accrue::optim {

/// A parameter that is trained, with its group's settings.
struct Trained {
  NamedParameter parameter;
  double weight_decay = 0;
  double lr_factor = 1;
};

/// Without frozen parameters; tied ones once, under their first name.
NamedParameters trained_of(const NamedParameters& parameters);

/// In order of `parameters`. Throws a usage Error as make_adam() says.
std::vector<Trained> resolve_groups(const NamedParameters& parameters,
                                    const std::vector<ParameterGroup>& groups);

}  // namespace accrue::optim
