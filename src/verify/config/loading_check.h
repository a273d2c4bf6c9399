#pragma once

#include <string>
#include <vector>

#include "data/loader.h"
#include "verify/subject.h"

namespace accrue::proof {

/// Faults in how micro-batches of those draws are loaded: each must hold its draws in order, each
/// equal to the draw loaded alone. Comparisons of gradients that read the same micro-batches cannot
/// detect this. Empty if there is none, else the first one.
std::vector<std::string> faults_of_loading(const data::Loader& loader, const Parts& parts);

}  // namespace accrue::proof
