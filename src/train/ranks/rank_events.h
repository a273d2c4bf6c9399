#pragma once

#include <cstdint>
#include <vector>

#include "accrue/core/observer.h"
#include "train/ranks/ranks.h"
#include "train/window/run_log.h"

namespace accrue::train {

/// Takes all events that ranks noted (RunLog::noted), each reason with its rank's number. To be
/// called by all ranks after a window where one of them noted something.
std::vector<Event> gather_events(const Ranks& ranks, RunLog& log, std::int64_t window);

}  // namespace accrue::train
