#include "train/limits/limit_watch.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "accrue/core/error.h"
#include "train/limits/limit_file.h"
#include "train/limits/limit_words.h"

namespace accrue::train {

LimitWatch::Watched::Watched(const Limit& stated) : limit(stated) {
  if (!limit.command.empty()) command = std::make_unique<LimitCommand>(limit);
}

LimitWatch::LimitWatch(const std::vector<Limit>& limits, std::function<double()> clock)
    : clock_(std::move(clock)) {
  if (!clock_) clock_ = [watch = Stopwatch()] { return watch.seconds(); };
  for (const Limit& limit : limits) watched_.emplace_back(limit);
  const Stopwatch waiting;
  for (Watched& watched : watched_)
    if (watched.command) watched.command->start(waiting.seconds());
  for (Watched& watched : watched_) {
    std::optional<LimitReading> reading;
    if (!watched.command) reading = read_limit_file(watched.limit);
    while (!reading) {
      reading = watched.command->poll(waiting.seconds());
      if (!reading) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (!reading->value)
      throw usage_error("run.limits", in_words(watched.limit), reading->trouble,
                        "a file or a command that begins with a number, or another limit");
    const double now = clock_();
    watched.due = now + interval_of(watched.limit);
    take(*reading, watched, now);
  }
}

std::vector<std::string> LimitWatch::follow() {
  const double now = clock_ ? clock_() : 0;
  for (Watched& watched : watched_)
    if (const auto reading = read_if_due(watched, now)) take(*reading, watched, now);
  return std::exchange(changes_, {});
}

std::optional<LimitReading> LimitWatch::read_if_due(Watched& watched, double now) const {
  if (watched.command)
    if (auto reading = watched.command->poll(now)) return reading;
  if (now < watched.due) return std::nullopt;
  if (!watched.command) {
    watched.due = now + interval_of(watched.limit);
    return read_limit_file(watched.limit);
  }
  if (!watched.command->is_idle()) return std::nullopt;
  watched.due = now + interval_of(watched.limit);
  watched.command->start(now);
  return std::nullopt;
}

void LimitWatch::take(const LimitReading& reading, Watched& watched, double now) {
  const LimitState before = watched.state;
  watched.state = after(reading, watched.limit, before, now);
  const LimitState& state = watched.state;
  if (state.is_left_out && !before.is_left_out)
    changes_.push_back(left_out_in_words(watched.limit, reading.trouble));
  if (!reading.value) return;
  if (before.is_left_out) changes_.push_back(in_words(watched.limit, *reading.value) + " again");
  if (state.is_met == before.is_met) return;
  if (state.is_met)
    record_reached(watched, *reading.value);
  else
    changes_.push_back(over_in_words(watched.limit, *reading.value, now - before.since));
}

void LimitWatch::record_reached(const Watched& watched, double value) {
  changes_.push_back(met_in_words(watched.limit, value));
  asks_to_stop_ |= watched.limit.action == LimitAction::stop;
  has_notice_ |= watched.limit.action == LimitAction::checkpoint;
}

double LimitWatch::allowed_speed() const {
  double speed = 1;
  for (const Watched& watched : watched_) {
    if (!watched.state.is_met) continue;
    if (watched.limit.action == LimitAction::pause) return 0;
    if (watched.limit.action == LimitAction::slow)
      speed = std::min(speed, watched.limit.speed.value_or(kUsualSpeed));
  }
  return speed;
}

bool LimitWatch::take_notice() { return std::exchange(has_notice_, false); }

}  // namespace accrue::train
