#pragma once

#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "memory/plan.h"

namespace accrue::memory {

/// The error that nothing fits, with the bytes missing and what would fit (exit status 3).
Error refusal(const std::vector<Fact>& facts, const PlanQuestion& question);

/// PlanQuestion::place_of_state at the end of a message; empty if it is.
std::string in_brackets(const std::string& place_of_state);

}  // namespace accrue::memory
