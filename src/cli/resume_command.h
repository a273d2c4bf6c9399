#pragma once

#include <string>
#include <vector>

#include "accrue/distributed/launch.h"

namespace accrue::cli {

/// The command that continues an interrupted run, as a shell reads it: "accrue train CONFIG
/// --key=value --resume", behind the launcher that started its ranks ("torchrun --no-python
/// --nproc-per-node=2 ..."). `overrides` are without dashes.
std::string resume_command(const std::string& config, const std::vector<std::string>& overrides,
                           const distributed::Launch& launch);

}  // namespace accrue::cli
