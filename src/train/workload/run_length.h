#pragma once

#include <string>

#include "accrue/train/config.h"
#include "batch/schedule.h"

namespace accrue::train {

/// How long a resumed run is to be.
struct LengthDecision {
  Config config;                    ///< as stated, with the length that the run has from now on
  bool changes = false;             ///< whether that differs from the run's own config
  std::int64_t windows_before = 0;  ///< the length by the run's own config
  std::string reason;               ///< for people; empty if nobody states another length
};

/// A run takes the length that is stated as it is resumed, longer or shorter. It takes a shorter
/// one only with `may_shorten`: the file that a run began with still says its first length after it
/// was lengthened.
LengthDecision decide_length(const Config& started, const Config& stated,
                             const batch::WindowSchedule& schedule, bool may_shorten);

/// Throws a usage Error if the batch of `config` goes by parts of the run, and so would be
/// another one in windows that were trained.
void expect_batch_to_take(const LengthDecision& decision, const Config& config);

/// `config` with the length that `other` has.
Config with_length_of(Config config, const Config& other);

/// What becomes of the learning rate of the step after `step`, where a run of `windows_before`
/// windows gets `horizon`'s length.
std::string rate_in_words(const Config& config, const Horizon& horizon, std::int64_t windows_before,
                          std::int64_t step);

/// Says that a run of this length is done after `step`, and how to go on longer.
std::string done_in_words(std::int64_t step, const RunConfig& run);

/// "run.steps = 100", as a config states it.
std::string length_in_words(const RunConfig& run);

}  // namespace accrue::train
