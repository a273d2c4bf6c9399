#pragma once

#include <string>
#include <vector>

#include "accrue/models/trainable.h"

namespace torch::jit {
struct Module;
}

namespace accrue::models {

/// Throws a usage Error naming `origin` and the signature found unless `module`'s forward takes one
/// tensor and returns one.
void check_signature(const torch::jit::Module& module, const std::string& origin);

/// Batch normalisations and dropout among the operators of the forward method and all it calls.
std::vector<ForeignLayer> layers_in_graph(const torch::jit::Module& module);

}  // namespace accrue::models
