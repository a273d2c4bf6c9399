#include "train/watch/slow_input.h"

#include <cmath>

#include "accrue/core/units.h"

namespace accrue::train {
namespace {

/// Less is not reported: short steps wait for a thread to wake up.
constexpr double least_seconds = 1;

std::string cause_of(InputKind kind) {
  switch (kind) {
    case InputKind::images:
      return "decoding images is suspected; try files of the size that the model takes "
             "(data.image), or ones that are decoded already (IDX, CIFAR)";
    case InputKind::lines:
      return "reading and tokenising JSON lines is suspected; try shorter lines or a token file";
    case InputKind::stream:
      break;
  }
  return "suspected: the disk that holds the files, or another program that keeps it busy";
}

}  // namespace

std::optional<std::string> SlowInput::observe(const StepReport& step) {
  if (!step.data_seconds) return std::nullopt;
  last_.push_back({.waiting = *step.data_seconds, .seconds = step.seconds});
  if (last_.size() > steps) last_.pop_front();
  Waited sum;
  for (const Waited& one : last_) {
    sum.waiting += one.waiting;
    sum.seconds += one.seconds;
  }
  const bool counts = last_.size() == steps && sum.waiting >= least_seconds;
  const double share = counts ? sum.waiting / sum.seconds : 0;
  if (!alarm_.rings(share)) return std::nullopt;
  return "the last " + std::to_string(steps) + " steps waited " +
         std::to_string(std::lround(100 * share)) + "% of their time for input (" +
         format_duration(sum.waiting) + " of " + format_duration(sum.seconds) +
         "): " + cause_of(kind_);
}

}  // namespace accrue::train
