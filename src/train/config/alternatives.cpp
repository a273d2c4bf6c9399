#include "train/config/alternatives.h"

#include <algorithm>
#include <array>

namespace accrue::train {
namespace {

/// A key that excludes the others of its group.
struct Alternative {
  int group;
  const char* key;
  void (*withdraw)(Config&);
};

constexpr std::array<Alternative, 8> alternatives{{
    {0, "run.steps", [](Config& c) { c.run.steps.reset(); }},
    {0, "run.tokens", [](Config& c) { c.run.tokens.reset(); }},
    {0, "run.epochs", [](Config& c) { c.run.epochs.reset(); }},
    {1, "batch.tokens", [](Config& c) { c.batch.tokens.reset(); }},
    {1, "batch.samples", [](Config& c) { c.batch.samples.reset(); }},
    {1, "batch.micro_batches", [](Config& c) { c.batch.micro_batches.reset(); }},
    {2, "data.val", [](Config& c) { c.data.val.clear(); }},
    {2, "data.val_fraction", [](Config& c) { c.data.val_fraction = 0; }},
}};

/// The group of `key`, itself included.
std::vector<Alternative> group_of(const std::string& key) {
  const auto chosen = std::find_if(alternatives.begin(), alternatives.end(),
                                   [&](const Alternative& a) { return key == a.key; });
  std::vector<Alternative> group;
  if (chosen == alternatives.end()) return group;
  for (const Alternative& other : alternatives)
    if (other.group == chosen->group) group.push_back(other);
  return group;
}

}  // namespace

std::vector<std::string> alternatives_to(const std::string& key) {
  std::vector<std::string> names;
  for (const Alternative& other : group_of(key))
    if (key != other.key) names.emplace_back(other.key);
  return names;
}

void withdraw_alternatives(const std::string& key, Config& config, StatedKeys& stated) {
  for (const Alternative& each : group_of(key)) {
    each.withdraw(config);
    stated.erase(each.key);
  }
}

}  // namespace accrue::train
