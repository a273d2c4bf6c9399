#pragma once

#include <vector>

#include "accrue/core/error.h"
#include "memory/plan.h"

namespace accrue::memory {

/// The error that nothing fits, with the bytes missing and what would fit (exit status 3).
Error refusal(const std::vector<Fact>& facts, const PlanQuestion& question);

}  // namespace accrue::memory
