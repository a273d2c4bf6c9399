#pragma once

#include <string_view>
#include <vector>

#include "accrue/core/observer.h"
#include "train/ranks/ranks.h"
#include "train/window/run_log.h"

namespace accrue::train {

/// Takes all events that ranks noted (RunLog::noted), each reason with its rank's number.
/// Collective if one of them noted something. `topic` names their subject in errors.
std::vector<Event> gather_events(const Ranks& ranks, RunLog& log, std::string_view topic);

}  // namespace accrue::train
