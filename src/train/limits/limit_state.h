#pragma once

#include <optional>
#include <string>

#include "accrue/train/limit.h"

namespace accrue::train {

/// A reading of a limit. For a limit without a bound the value is 1 if the file exists or the
/// command ended with status 0, else 0.
struct LimitReading {
  std::optional<double> value = {};  ///< none: there was nothing to read
  std::string trouble = {};          ///< why there is no value
};

/// The state of a limit.
struct LimitState {
  bool is_met = false;
  double since = 0;  ///< when the limit was met, or was over
  /// When reading it began to fail; none while it can be read.
  std::optional<double> unread_since = {};
  bool is_left_out = false;  ///< it could not be read for so long that it counts as over

  bool operator==(const LimitState&) const = default;
};

/// A limit that was met stays met for at least this many readings, and one that cannot be read
/// keeps its state for this many.
inline constexpr double kReadingsMet = 5, kReadingsUnread = 10;

/// The share of the time that a run works if a limit slows it down and states none.
inline constexpr double kUsualSpeed = 0.5;

/// Seconds between two readings.
double interval_of(const Limit& limit);
/// Whether the number is beyond the bound.
bool is_beyond(const Limit& limit, double value);
/// Whether the number ends a limit that was met. Between this number and the bound nothing
/// changes.
bool is_over(const Limit& limit, double value);
/// The number from which is_over() holds.
double end_of(const Limit& limit);

/// The limit's state after a reading at `now`, in seconds on any clock. A pure function. A limit
/// that is met is over at the first reading for which is_over() holds after kReadingsMet, or when
/// nothing could be read for kReadingsUnread: a sensor that is gone does not hold up a run.
LimitState after(const LimitReading& reading, const Limit& limit, LimitState state, double now);

}  // namespace accrue::train
