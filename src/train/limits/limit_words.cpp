#include "train/limits/limit_words.h"

#include <cmath>
#include <cstdio>

#include "core/words.h"

namespace accrue::train {
namespace {

bool has_bound(const Limit& limit) { return limit.above || limit.below; }

std::string number_in_words(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", number);
  return text;
}

std::string subject(const Limit& limit) {
  return limit.command.empty() ? limit.file : "the command " + in_quotes(limit.command);
}

std::string bound_in_words(const Limit& limit) {
  if (limit.above) return "above " + number_in_words(*limit.above);
  if (limit.below) return "below " + number_in_words(*limit.below);
  return limit.command.empty() ? "is there" : "ends with status 0";
}

std::string end_in_words(const Limit& limit) {
  if (has_bound(limit))
    return "until it is " + number_in_words(end_of(limit)) +
           (limit.below ? " or more" : " or less");
  return limit.command.empty() ? "until it is gone" : "until it ends with another status";
}

std::string percent_of(double share) { return std::to_string(std::lround(100 * share)) + "%"; }

std::string consequence(const Limit& limit) {
  switch (limit.action) {
    case LimitAction::slow:
      return "works " + percent_of(limit.speed.value_or(kUsualSpeed)) + " of the time " +
             end_in_words(limit);
    case LimitAction::pause:
      return "paused " + end_in_words(limit);
    case LimitAction::checkpoint:
      return "a checkpoint is asked for";
    case LimitAction::stop:
      break;
  }
  return "asked to stop";
}

}  // namespace

std::string in_words(const Limit& limit) {
  std::string text = subject(limit) + " " + bound_in_words(limit) + ": " +
                     std::string(limit_action_words.of(limit.action));
  if (has_bound(limit)) text += " " + end_in_words(limit);
  return text;
}

std::string in_words(const Limit& limit, double value) {
  if (has_bound(limit)) return subject(limit) + " is " + number_in_words(value);
  if (limit.command.empty()) return subject(limit) + (value > 0 ? " is there" : " is not there");
  return subject(limit) + (value > 0 ? " ends with status 0" : " ends with another status than 0");
}

std::string met_in_words(const Limit& limit, double value) {
  return in_words(limit, value) + (has_bound(limit) ? ", " + bound_in_words(limit) : "") + ": " +
         consequence(limit);
}

std::string over_in_words(const Limit& limit, double value, double seconds) {
  return in_words(limit, value) + ": this limit is over after " +
         std::to_string(std::lround(seconds)) + " s";
}

std::string left_out_in_words(const Limit& limit, const std::string& trouble) {
  return subject(limit) + " cannot be read (" + trouble +
         "): this limit counts as over until it can";
}

}  // namespace accrue::train
