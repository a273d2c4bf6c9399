#include "data/tokenizer/pipeline/added_tokens.h"

#include <algorithm>

#include "data/tokenizer/unicode/white_space.h"

namespace accrue::data {
namespace {

bool stands_alone(std::string_view text, Extent extent) {
  return !ends_with_word(text.substr(0, extent.begin)) &&
         !begins_with_word(text.substr(extent.end));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    if (!tokens_[i].text.empty()) beginnings_.add(tokens_[i].text, i);
  beginnings_.finish();
}

std::vector<AddedTokens::Found> AddedTokens::find(std::string_view text) const {
  std::vector<Found> found;
  if (is_empty()) return found;
  std::size_t end = 0;  // of the last one, with its white space
  std::size_t free_from = 0;
  const std::vector<LongestMatches::Found> all = beginnings_.find(text);
  for (auto beginning = all.rbegin(); beginning != all.rend(); ++beginning) {
    if (beginning->at < free_from) continue;
    const AddedToken& token = tokens_[beginning->number];
    Extent extent{beginning->at, beginning->at + token.text.size()};
    free_from = extent.end;
    if (token.is_left_as_text || (token.is_word && !stands_alone(text, extent))) continue;
    // White space that belongs to the last one is not examined again.
    if (end < extent.begin && token.strips_left)
      extent.begin = end + white_space_at_end(text.substr(end, extent.begin - end));
    extent.begin = std::max(end, extent.begin);
    if (token.strips_right)
      extent.end =
          std::max(end, extent.end) + white_space_at_begin(text.substr(std::max(end, extent.end)));
    end = extent.end;
    found.push_back({extent, token.id});
  }
  return found;
}

}  // namespace accrue::data
