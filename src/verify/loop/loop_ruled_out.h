#pragma once

#include <string>
#include <vector>

#include "verify/diagnosis.h"

namespace accrue::proof {

/// What the measurements on a loop speak against, "cause: why", beside the cause that was found.
/// `fitted`: whether its gradient was fitted by those of its micro-batches. Empty if nothing
/// differs. Pure.
std::vector<std::string> ruled_out_of_loop(const LoopObservations& seen, bool fitted, Cause found);

}  // namespace accrue::proof
