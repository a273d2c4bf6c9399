#include "train/checkpoint/batch_change.h"

#include <nlohmann/json.hpp>
#include <string>

namespace accrue::train {
namespace {

using nlohmann::json;

std::int64_t integer_of_at_least(std::int64_t least, const json& change, const char* name) {
  const auto value = change.at(name).get<std::int64_t>();
  if (change.at(name).is_number_integer() && value >= least) return value;
  throw json::other_error::create(
      500, std::string(name) + " of a batch change is less than " + std::to_string(least), &change);
}

}  // namespace

std::int64_t batch_after(const std::vector<BatchChange>& changes, std::int64_t begun) {
  return changes.empty() ? begun : changes.back().size;
}

std::vector<BatchChange> changes_to_go_on_with(std::vector<BatchChange> of_checkpoint,
                                               const std::vector<BatchChange>& recorded,
                                               std::int64_t window) {
  std::erase_if(of_checkpoint, [&](const BatchChange& each) { return each.window >= window; });
  for (const BatchChange& change : recorded)
    if (change.window >= window) of_checkpoint.push_back(change);
  return of_checkpoint;
}

std::vector<BatchChange> changed_by_hand(std::vector<BatchChange> changes, const BatchChange& next,
                                         std::int64_t begun) {
  std::erase_if(changes, [&](const BatchChange& each) { return each.window >= next.window; });
  if (batch_after(changes, begun) != next.size) changes.push_back(next);
  return changes;
}

json batch_changes_to_json(const std::vector<BatchChange>& changes) {
  json list = json::array();
  for (const BatchChange& change : changes)
    list.push_back({{"window", change.window}, {"size", change.size}});
  return list;
}

std::vector<BatchChange> batch_changes_from_json(const json& list) {
  std::vector<BatchChange> changes;
  for (const json& change : list)
    changes.push_back({.window = integer_of_at_least(0, change, "window"),
                       .size = integer_of_at_least(1, change, "size")});
  return changes;
}

}  // namespace accrue::train
