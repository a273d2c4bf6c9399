#pragma once

#include <memory>

#include "accrue/optim/optimizer.h"

namespace torch::optim {
class Optimizer;
}

namespace accrue::optim {

/// Wraps an optimizer of libtorch or of the program: its groups and options stay, and their
/// learning rates follow the schedule, as `schedule lr / base_lr` of their current values. It reads
/// the mean gradient from `.grad`, which is undefined for a parameter that the window did not use.
/// Its state is saved in checkpoints in the format of torch::save. Throws a usage Error if it steps
/// a parameter that is not among `parameters`, or does not step one of them.
std::unique_ptr<Optimizer> from_torch(std::unique_ptr<torch::optim::Optimizer> optimizer,
                                      const NamedParameters& parameters, double base_lr);

}  // namespace accrue::optim
