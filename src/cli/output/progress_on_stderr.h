#pragma once

#include <optional>

#include "accrue/core/long_operation.h"
#include "accrue/observe/progress_style.h"

namespace accrue::cli {

/// Shows on stderr what takes longer than a second (observe::ProgressLine): one line that is
/// redrawn on a terminal, a line from time to time elsewhere. `stated` is observe.progress; empty
/// for "off".
ShowProgress progress_on_stderr(std::optional<observe::ProgressStyle> stated = std::nullopt);

}  // namespace accrue::cli
