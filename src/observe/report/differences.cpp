#include "observe/report/differences.h"

#include <algorithm>
#include <set>

namespace accrue::observe {
namespace {

using Settings = std::map<std::string, std::string>;

std::optional<std::string> value_in(const Settings& run, const std::string& key) {
  const auto entry = run.find(key);
  if (entry == run.end()) return std::nullopt;
  return entry->second;
}

}  // namespace

std::vector<Difference> differences(const std::vector<Settings>& runs) {
  std::set<std::string> keys;
  for (const Settings& run : runs)
    for (const auto& [key, value] : run) keys.insert(key);
  std::vector<Difference> found;
  for (const std::string& key : keys) {
    Difference difference{.key = key};
    for (const Settings& run : runs) difference.values.push_back(value_in(run, key));
    const auto& first = difference.values.front();
    if (std::any_of(difference.values.begin(), difference.values.end(),
                    [&](const auto& value) { return value != first; }))
      found.push_back(std::move(difference));
  }
  return found;
}

}  // namespace accrue::observe
