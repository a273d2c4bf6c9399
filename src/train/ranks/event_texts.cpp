#include "train/ranks/event_texts.h"

#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "core/whole_number.h"

namespace accrue::train {
namespace {

using nlohmann::json;

void expect_event(bool holds) {
  if (!holds)
    throw runtime_error("take the events of other ranks", "a name, a reason and a step of each",
                        "something else", "the same build of accrue on all ranks");
}

/// Null if there is none.
json field(const json& event, const char* name) { return event.value(name, json()); }

Event event_of(const json& event) {
  expect_event(event.is_object());
  const json name = field(event, "name"), reason = field(event, "reason");
  const auto step = whole_number(field(event, "step"));
  expect_event(name.is_string() && reason.is_string() && step.has_value());
  return {.name = name.get<std::string>(), .reason = reason.get<std::string>(), .step = *step};
}

}  // namespace

std::string to_text(const std::vector<Event>& events) {
  json list = json::array();
  for (const Event& event : events)
    list.push_back({{"name", event.name}, {"reason", event.reason}, {"step", event.step}});
  // A reason may name a file whose name is not UTF-8.
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<Event> events_from_text(const std::string& text) {
  const json list = json::parse(text, nullptr, /*allow_exceptions=*/false);
  expect_event(list.is_array());
  std::vector<Event> events;
  for (const json& event : list) events.push_back(event_of(event));
  return events;
}

}  // namespace accrue::train
