#include "train/ranks/limit_meeting.h"

#include <ATen/record_function.h>

#include <cstddef>

#include "train/ranks/rank_events.h"

namespace accrue::train {

LimitMeeting exchange_limits(const Ranks& ranks, RunControl& control, RunLog& log,
                             bool has_notice) {
  RECORD_USER_SCOPE("limits: meet");
  const auto world = static_cast<std::size_t>(ranks.world());
  std::vector<double> said(world);
  said.at(static_cast<std::size_t>(ranks.rank())) = control.allowed_speed();
  said.push_back(control.asked_to_stop() ? 1 : 0);
  said.push_back(has_notice ? 1 : 0);
  said.push_back(static_cast<double>(log.noted().size()));
  said = ranks.add_up(said, "what the ranks' limits allow");
  const bool has_events = said.back() > 0;
  if (has_events) log.tell(gather_events(ranks, log, "events between windows"));
  return {.speeds = {said.begin(), said.begin() + static_cast<std::ptrdiff_t>(world)},
          .stops = said[world] > 0,
          .has_notice = said[world + 1] > 0};
}

}  // namespace accrue::train
