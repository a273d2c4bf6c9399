#pragma once

#include <memory>

#include "accrue/optim/optimizer.h"

namespace torch::optim {
class Optimizer;
}

namespace accrue::optim {

/// An optimizer of libtorch or of a program's own in the place of accrue's: its groups and options
/// stay, and their learning rates follow the schedule, as `schedule lr / base_lr` of what they are
/// now. It finds the mean gradient in `.grad`, which is undefined if a window did not use a
/// parameter. What it keeps goes into checkpoints as torch::save writes it. Throws a usage Error
/// if a parameter that it steps is not among `parameters`, or one of these is not stepped.
std::unique_ptr<Optimizer> from_torch(std::unique_ptr<torch::optim::Optimizer> optimizer,
                                      const NamedParameters& parameters, double base_lr);

}  // namespace accrue::optim
