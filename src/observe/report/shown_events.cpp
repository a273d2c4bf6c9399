#include "observe/report/shown_events.h"

#include <algorithm>
#include <map>

namespace accrue::observe {
namespace {

constexpr std::size_t longest_reason = 2000;

/// The largest count per name with which all names together stay within `most`.
std::size_t fair_share(const std::map<std::string, std::size_t>& counts, std::size_t most) {
  const auto shown_with = [&](std::size_t share) {
    std::size_t total = 0;
    for (const auto& [name, count] : counts) total += std::min(count, share);
    return total;
  };
  std::size_t low = 0, high = most;
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    if (shown_with(middle) <= most)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Cuts between characters of UTF-8, whose continuing bytes begin with the bits 10.
std::string shortened(const std::string& text) {
  if (text.size() <= longest_reason) return text;
  std::size_t end = longest_reason;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + " ... (" + std::to_string(text.size() - end) + " more bytes)";
}

}  // namespace

ShownEvents choose_events(const std::vector<EventPoint>& events, std::size_t most) {
  std::map<std::string, std::size_t> counts, seen;
  for (const EventPoint& event : events) ++counts[event.name];
  const std::size_t share = fair_share(counts, most);
  ShownEvents shown;
  for (const EventPoint& event : events) {
    const std::size_t place = seen[event.name]++, count = counts[event.name];
    const bool is_among_first = place < (share + 1) / 2;
    const bool is_among_last = count - place <= share / 2;
    if (!is_among_first && !is_among_last && count > share) {
      ++shown.left_out;
      continue;
    }
    shown.events.push_back(event);
    shown.events.back().reason = shortened(event.reason);
  }
  return shown;
}

}  // namespace accrue::observe
