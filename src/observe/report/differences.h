#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace accrue::observe {

/// A key whose values differ between runs; none if a run does not have it.
struct Difference {
  std::string key;
  std::vector<std::optional<std::string>> values;  ///< one for each run
};

/// Sorted by key. Fewer than two runs have no differences.
std::vector<Difference> differences(const std::vector<std::map<std::string, std::string>>& runs);

}  // namespace accrue::observe
