#pragma once

#include <string>

#include "accrue/train/config.h"
#include "batch/schedule.h"

namespace accrue::train {

/// How long a run is to be that is resumed.
struct LengthDecision {
  Config config;                    ///< as stated, of the length that the run has from now on
  bool changes = false;             ///< from what the run's own config says
  std::int64_t windows_before = 0;  ///< as that says
  std::string reason;               ///< in words; empty where nobody states another length
};

/// A run takes the length that is stated as it is resumed, longer or shorter. A shorter one only
/// with `may_shorten`: the file that a run began with still says its first length after it was
/// lengthened.
LengthDecision decide_length(const Config& started, const Config& stated,
                             const batch::WindowSchedule& schedule, bool may_shorten);

/// `config` of the length that `other` has.
Config with_length_of(Config config, const Config& other);

/// What becomes of the learning rate of the step after `step` where a run of `windows_before` gets
/// `horizon`'s length.
std::string rate_in_words(const Config& config, const Horizon& horizon, std::int64_t windows_before,
                          std::int64_t step);

/// That a run of this length is done after `step`, and how to go on longer.
std::string done_in_words(std::int64_t step, const RunConfig& run);

/// "run.steps = 100", as a config states it.
std::string length_in_words(const RunConfig& run);

}  // namespace accrue::train
