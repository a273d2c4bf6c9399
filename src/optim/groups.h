#pragma once

#include <optional>
#include <vector>

#include "accrue/optim/optimizer.h"

namespace accrue::optim {

/// A trained parameter with its group's settings.
struct Trained {
  NamedParameter parameter;
  double weight_decay = 0;
  double lr_factor = 1;
  std::optional<ElementRange> range = {};  ///< the elements kept and stepped; not set: all

  /// The part that is kept and stepped, as a tensor: one-dimensional if it is a range.
  at::Tensor stepped() const;
};

/// The rate of a group with this factor if the schedule's is `lr`.
double group_rate(double factor, double lr, const std::optional<RateFall>& fall);

/// The trained parameters in order of `parameters`. Throws the usage Errors of make_adam().
std::vector<Trained> resolve_groups(const NamedParameters& parameters,
                                    const std::vector<ParameterGroup>& groups);

/// Reduces each parameter to `slice`'s range of it. Throws a usage Error if a parameter is not
/// contiguous and on the CPU.
std::vector<Trained> slice_of(std::vector<Trained> trained, const RankSlice& slice);

}  // namespace accrue::optim
