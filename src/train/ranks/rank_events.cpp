#include "train/ranks/rank_events.h"

#include <string>
#include <utility>

#include "train/ranks/event_texts.h"

namespace accrue::train {

std::vector<Event> gather_events(const Ranks& ranks, RunLog& log, std::string_view topic) {
  const std::vector<std::string> texts = ranks.gather_texts(topic, to_text(log.take_noted()));
  std::vector<Event> events;
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    for (Event& event : events_from_text(texts[rank])) {
      event.reason = "rank " + std::to_string(rank) + ": " + event.reason;
      events.push_back(std::move(event));
    }
  return events;
}

}  // namespace accrue::train
