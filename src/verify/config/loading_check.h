#pragma once

#include <string>
#include <vector>

#include "data/loader.h"
#include "verify/subject.h"

namespace accrue::proof {

/// What is wrong with how micro-batches of those draws are loaded: each holds its draws in order,
/// and of each what that draw is when it is loaded alone. No comparison of gradients that read the
/// same micro-batches could tell. Empty if nothing is, else the first that is found.
std::vector<std::string> faults_of_loading(const data::Loader& loader, const Parts& parts);

}  // namespace accrue::proof
