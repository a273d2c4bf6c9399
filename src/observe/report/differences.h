#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace accrue::observe {

/// A key whose value is not the same in all runs; none if a run does not have it.
struct Difference {
  std::string key;
  std::vector<std::optional<std::string>> values;  ///< one of each run
};

/// Sorted by key. Fewer than two runs differ in nothing.
std::vector<Difference> differences(const std::vector<std::map<std::string, std::string>>& runs);

}  // namespace accrue::observe
