#include "train/limits/limit_state.h"

#include <cmath>

namespace accrue::train {
namespace {

constexpr double kFileSeconds = 1, kCommandSeconds = 10;
constexpr double kHysteresis = 0.05;
/// The bound of a limit that states none.
constexpr double kNothingThere = 0;

double bound_of(const Limit& limit) {
  return limit.below ? *limit.below : limit.above.value_or(kNothingThere);
}

LimitState unread(const Limit& limit, LimitState state, double now) {
  if (!state.unread_since) state.unread_since = now;
  if (state.is_left_out) return state;
  if (now - *state.unread_since < kReadingsUnread * interval_of(limit)) return state;
  if (state.is_met) state.since = now;
  state.is_met = false;
  state.is_left_out = true;
  return state;
}

}  // namespace

double interval_of(const Limit& limit) {
  if (limit.every) return limit.every->value;
  return limit.command.empty() ? kFileSeconds : kCommandSeconds;
}

bool is_beyond(const Limit& limit, double value) {
  return limit.below ? value < bound_of(limit) : value > bound_of(limit);
}

bool is_over(const Limit& limit, double value) {
  return limit.below ? value >= end_of(limit) : value <= end_of(limit);
}

double end_of(const Limit& limit) {
  if (limit.until) return *limit.until;
  const double bound = bound_of(limit), behind = kHysteresis * std::abs(bound);
  return limit.below ? bound + behind : bound - behind;
}

LimitState after(const LimitReading& reading, const Limit& limit, LimitState state, double now) {
  if (!reading.value) return unread(limit, state, now);
  state.unread_since.reset();
  state.is_left_out = false;
  const bool may_end = now - state.since >= kReadingsMet * interval_of(limit);
  const bool changes =
      state.is_met ? may_end && is_over(limit, *reading.value) : is_beyond(limit, *reading.value);
  if (!changes) return state;
  state.is_met = !state.is_met;
  state.since = now;
  return state;
}

}  // namespace accrue::train
