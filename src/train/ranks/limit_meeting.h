#pragma once

#include <vector>

#include "train/ranks/ranks.h"
#include "train/window/run_control.h"
#include "train/window/run_log.h"

namespace accrue::train {

/// What the limits of all ranks come to.
struct LimitMeeting {
  std::vector<double> speeds;  ///< by rank (RunControl::allowed_speed)
  bool stops = false;          ///< something asked a rank to stop
  bool has_notice = false;     ///< another rank than the first was asked for a checkpoint
};

/// Has the ranks tell each other what their limits ask, and the events that they noted, which the
/// first then tells. All ranks call it, between windows; a rank that is alone asks nobody.
/// `has_notice`: this rank was given notice, which the first is to answer.
LimitMeeting meet_about_limits(const Ranks& ranks, RunControl& control, RunLog& log,
                               bool has_notice);

}  // namespace accrue::train
