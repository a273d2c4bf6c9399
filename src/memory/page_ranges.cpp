#include "memory/page_ranges.h"

#include <unistd.h>

#include <algorithm>

namespace accrue::memory {

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}
std::size_t down_to_page(std::size_t bytes) { return bytes / page_bytes() * page_bytes(); }
std::size_t up_to_page(std::size_t bytes) { return down_to_page(bytes + page_bytes() - 1); }

std::vector<PageRange> merged(std::vector<PageRange> ranges) {
  std::erase_if(ranges, [](const PageRange& range) { return range.begin >= range.end; });
  std::ranges::sort(ranges, {}, &PageRange::begin);
  std::vector<PageRange> result;
  for (const PageRange& range : ranges) {
    if (!result.empty() && range.begin <= result.back().end)
      result.back().end = std::max(result.back().end, range.end);
    else
      result.push_back(range);
  }
  return result;
}

std::vector<PageRange> rest_of(const std::vector<PageRange>& ranges, std::size_t end) {
  std::vector<PageRange> rest;
  std::size_t at = 0;
  for (const PageRange& range : ranges) {
    if (range.begin > at) rest.push_back({at, std::min(range.begin, end)});
    at = std::max(at, range.end);
  }
  if (at < end) rest.push_back({at, end});
  return rest;
}

std::vector<PageRange> without(const std::vector<PageRange>& ranges,
                               const std::vector<PageRange>& others) {
  std::vector<PageRange> left;
  auto other = others.begin();
  for (PageRange range : ranges) {
    while (other != others.end() && other->end <= range.begin) ++other;
    for (auto inside = other; inside != others.end() && inside->begin < range.end; ++inside) {
      if (inside->begin > range.begin) left.push_back({range.begin, inside->begin});
      range.begin = std::max(range.begin, std::min(inside->end, range.end));
    }
    if (range.begin < range.end) left.push_back(range);
  }
  return left;
}

}  // namespace accrue::memory
