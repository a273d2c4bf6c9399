#pragma once

#include <string>

#include "accrue/train/config.h"
#include "batch/schedule.h"

namespace accrue::train {

/// The length of a resumed run.
struct LengthDecision {
  Config config;                    ///< as stated, with the run's new length
  bool changes = false;             ///< whether that differs from the run's own config
  std::int64_t windows_before = 0;  ///< the length by the run's own config
  std::string reason;               ///< for people; empty if no other length is stated
};

/// A run takes the length that is stated when it is resumed, longer or shorter. It takes a shorter
/// one only with `may_shorten`: the file that a run began with still has its first length after the
/// run was lengthened.
LengthDecision decide_length(const Config& started, const Config& stated,
                             const batch::WindowSchedule& schedule, bool may_shorten);

/// Throws a usage Error if the batch of `config` depends on shares of the run's length, and so
/// would change for windows that are already trained.
void expect_batch_to_take(const LengthDecision& decision, const Config& config);

/// `config` with the length of `other`.
Config with_length_of(Config config, const Config& other);

/// How the learning rate of the step after `step` changes if a run of `windows_before` windows gets
/// `horizon`'s length.
std::string rate_in_words(const Config& config, const Horizon& horizon, std::int64_t windows_before,
                          std::int64_t step);

/// States that a run of this length is done after `step`, and how to continue it.
std::string done_in_words(std::int64_t step, const RunConfig& run);

/// "run.steps = 100", as in a config.
std::string length_in_words(const RunConfig& run);

}  // namespace accrue::train
