#pragma once

#include <string>
#include <vector>

#include "accrue/core/observer.h"
#include "train/ranks/ranks.h"

namespace accrue::train {

/// What happened on ranks other than the first, which alone tells observers: noted where it
/// happens, and sent to it after the window.
class RankEvents {
 public:
  void note(Event event) { noted_.push_back(std::move(event)); }
  /// How many wait to be sent.
  double figure() const { return static_cast<double>(noted_.size()); }
  /// All that ranks noted, each reason with its rank's number. To be called by all ranks after a
  /// window whose rank_sums add up to more than 0, which says that there is something to send.
  std::vector<Event> gather(const Ranks& ranks, std::int64_t window);

 private:
  std::vector<Event> noted_;
};

}  // namespace accrue::train
