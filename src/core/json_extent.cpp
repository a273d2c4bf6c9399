#include "core/json_extent.h"

#include <algorithm>
#include <vector>

namespace accrue {
namespace {

/// The place of the quote that ends the string beginning at `begin`, or the text's end.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  std::size_t place = begin + 1;
  while (place < text.size() && text[place] != '"') place += text[place] == '\\' ? 2 : 1;
  return place;
}

}  // namespace

JsonExtent extent_of_json(std::string_view text) {
  JsonExtent extent;
  std::vector<std::size_t> open;  // the members so far of each open one
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') i = end_of_string(text, i);
    if (c == '[' || c == '{') open.push_back(1);
    if (c == ',' && !open.empty()) ++open.back();
    if (!open.empty()) extent.members = std::max(extent.members, open.back());
    extent.depth = std::max(extent.depth, open.size());
    if ((c == ']' || c == '}') && !open.empty()) open.pop_back();
  }
  return extent;
}

}  // namespace accrue
