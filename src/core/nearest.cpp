#include "core/nearest.h"

#include <algorithm>
#include <utility>

namespace accrue {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  return *std::min_element(candidates.begin(), candidates.end(),
                           [&](const std::string& a, const std::string& b) {
                             return edit_distance(name, a) < edit_distance(name, b);
                           });
}

std::optional<std::string> nearest_within(std::size_t edits, std::string_view name,
                                          const std::vector<std::string>& candidates) {
  if (candidates.empty()) return std::nullopt;
  std::string found = nearest(name, candidates);
  return edit_distance(name, found) <= edits ? std::optional(std::move(found)) : std::nullopt;
}

std::optional<std::string> misspelt(std::string_view name,
                                    const std::vector<std::string>& candidates) {
  constexpr std::size_t length_of_an_edit = 4;
  if (name.size() < 2) return std::nullopt;
  return nearest_within(std::max<std::size_t>(1, name.size() / length_of_an_edit), name,
                        candidates);
}

}  // namespace accrue
