#pragma once

#include <optional>
#include <string>

#include "accrue/train/limit.h"

namespace accrue::train {

/// What was read for a limit. Of one without a bound the value is 1 if the file is there or the
/// command ended with status 0, else 0.
struct LimitReading {
  std::optional<double> value = {};  ///< none: there was nothing to read
  std::string trouble = {};          ///< why there is no value
};

/// Where a limit stands.
struct LimitState {
  bool is_met = false;
  double since = 0;  ///< when it came to be met, or to be over
  /// When it could no longer be read; none while it can.
  std::optional<double> unread_since = {};
  bool is_left_out = false;  ///< it could not be read for so long that it counts as over

  bool operator==(const LimitState&) const = default;
};

/// A limit that was met stays so for at least as long as this many readings take, and one that
/// cannot be read stays as it is for as long as this many take.
inline constexpr double kReadingsMet = 5, kReadingsUnread = 10;

/// The part of the time that a run works if a limit has it be slow and states none.
inline constexpr double kUsualSpeed = 0.5;

/// Seconds between two readings.
double interval_of(const Limit& limit);
/// Whether the number is beyond the bound.
bool is_beyond(const Limit& limit, double value);
/// Whether the number is where a limit that was met is over. Between there and the bound nothing
/// changes.
bool is_over(const Limit& limit, double value);
/// The number that is_over() begins with.
double end_of(const Limit& limit);

/// If the limit stands after a reading at `now`, in seconds on any clock. It is pure. A limit
/// that is met is over at the first reading from there on (is_over) once kReadingsMet have passed,
/// or where nothing can be read for kReadingsUnread: a sensor that is gone holds up no run.
LimitState after(const LimitReading& reading, const Limit& limit, LimitState state, double now);

}  // namespace accrue::train
