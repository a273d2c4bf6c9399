#include "train/ranks/rank_events.h"

#include <nlohmann/json.hpp>
#include <string>

namespace accrue::train {

using nlohmann::json;

std::vector<Event> gather_events(const Ranks& ranks, RunLog& log, std::string_view topic) {
  json mine = json::array();
  for (const Event& event : log.take_noted())
    mine.push_back({{"name", event.name}, {"reason", event.reason}, {"step", event.step}});
  const std::vector<std::string> texts = ranks.gather_texts(topic, mine.dump());
  std::vector<Event> events;
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    for (const json& event : json::parse(texts[rank]))
      events.push_back(
          {.name = event.at("name").get<std::string>(),
           .reason = "rank " + std::to_string(rank) + ": " + event.at("reason").get<std::string>(),
           .step = event.at("step").get<std::int64_t>()});
  return events;
}

}  // namespace accrue::train
