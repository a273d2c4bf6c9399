#pragma once

#include <vector>

#include "train/ranks/ranks.h"
#include "train/window/run_control.h"
#include "train/window/run_log.h"

namespace accrue::train {

/// The combined limits of all ranks.
struct LimitMeeting {
  std::vector<double> speeds;  ///< by rank (RunControl::allowed_speed)
  bool stops = false;          ///< something asked a rank to stop
  bool has_notice = false;     ///< another rank than the first was asked for a checkpoint
};

/// Exchanges the limits of all ranks, and the events that they noted, which the first rank then
/// reports. Collective, between windows; a process that is alone exchanges nothing. `has_notice`:
/// this rank was given notice, and the first rank is to act on it.
LimitMeeting exchange_limits(const Ranks& ranks, RunControl& control, RunLog& log, bool has_notice);

}  // namespace accrue::train
