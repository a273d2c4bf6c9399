#pragma once

#include <cstdint>
#include <optional>

namespace torch::optim {
class Optimizer;
}

namespace accrue::train {

/// The steps that a torch::optim optimizer has taken, from its own state: the maximum over its
/// parameters. None if it keeps no count (SGD) or has taken none.
std::optional<std::int64_t> steps_taken(const torch::optim::Optimizer& optimizer);

}  // namespace accrue::train
