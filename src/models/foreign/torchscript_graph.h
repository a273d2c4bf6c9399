#pragma once

#include <string>
#include <vector>

#include "accrue/models/trainable.h"

namespace torch::jit {
struct Module;
}

namespace accrue::models {

class ScriptMethod;

/// Throws a usage Error naming `origin` and the signature found if `forward` does not return these
/// outputs; "" means a single tensor. Only a run shows the contents of a dict.
void check_outputs(const ScriptMethod& forward, const std::vector<std::string>& outputs,
                   const std::string& origin);

/// Batch normalisations and dropout among the operators of the method and everything it calls.
std::vector<ForeignLayer> layers_in_graph(const torch::jit::Module& module,
                                          const std::string& method);

}  // namespace accrue::models
