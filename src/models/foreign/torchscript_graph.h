#pragma once

#include <string>
#include <vector>

#include "accrue/models/trainable.h"

namespace torch::jit {
struct Module;
}

namespace accrue::models {

class ScriptMethod;

/// Throws a usage Error naming `origin` and the signature found where `forward` does not return
/// these outputs; "" stands for a single tensor. What a dict has only a run tells.
void check_outputs(const ScriptMethod& forward, const std::vector<std::string>& outputs,
                   const std::string& origin);

/// Batch normalisations and dropout among the operators of the method and all it calls.
std::vector<ForeignLayer> layers_in_graph(const torch::jit::Module& module,
                                          const std::string& method);

}  // namespace accrue::models
