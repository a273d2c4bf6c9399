#pragma once

#include <string>
#include <vector>

#include "accrue/distributed/launch.h"

namespace accrue::cli {

/// The command that continues an interrupted run, quoted for a shell: "accrue train CONFIG
/// --key=value --resume", after the launcher that started its ranks ("torchrun --no-python
/// --nproc-per-node=2 ..."). `overrides` are without dashes.
std::string resume_command(const std::string& config, const std::vector<std::string>& overrides,
                           const distributed::Launch& launch);

}  // namespace accrue::cli
