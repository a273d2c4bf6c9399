#pragma once

#include <string>
#include <vector>

#include "verify/diagnosis.h"

namespace accrue::proof {

/// The causes ruled out by the measurements on a loop, as "cause: why", besides the cause found.
/// `fitted`: whether its gradient was fitted by those of its micro-batches. Empty if nothing
/// differs. A pure function.
std::vector<std::string> ruled_out_of_loop(const LoopObservations& seen, bool fitted, Cause found);

}  // namespace accrue::proof
