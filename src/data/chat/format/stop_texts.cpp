#include "data/chat/format/stop_texts.h"

#include <algorithm>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

/// How many bytes at the end of `text` are the beginning of `stop`, but not all of it.
std::size_t begun(std::string_view text, std::string_view stop) {
  std::size_t size = std::min(text.size(), stop.size() - 1);
  while (!text.ends_with(stop.substr(0, size))) --size;
  return size;
}

}  // namespace

StopTexts::StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty())
      throw usage_error("accrue sample --stop", "a text at which to stop", "an empty one",
                        "leaving it out");
}

std::string StopTexts::add(std::string_view piece) {
  if (has_stopped_) return {};
  held_ += piece;
  std::size_t first = held_.npos, most_begun = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, held_.find(stop));
    most_begun = std::max(most_begun, begun(held_, stop));
  }
  has_stopped_ = first != held_.npos;
  return take(has_stopped_ ? first : held_.size() - most_begun);
}

std::string StopTexts::end() { return has_stopped_ ? std::string() : take(held_.size()); }

std::string StopTexts::take(std::size_t size) {
  std::string told = held_.substr(0, size);
  held_.erase(0, size);
  return told;
}

}  // namespace accrue::data
