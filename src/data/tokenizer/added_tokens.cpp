#include "data/tokenizer/added_tokens.h"

#include <algorithm>

#include "data/tokenizer/white_space.h"

namespace accrue::data {
namespace {

bool stands_alone(std::string_view text, Extent extent) {
  return !ends_with_word(text.substr(0, extent.begin)) &&
         !begins_with_word(text.substr(extent.end));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), by_first_byte_(256) {
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    if (const std::string& text = tokens_[i].text; !text.empty())
      by_first_byte_[static_cast<unsigned char>(text.front())].push_back(i);
  for (std::vector<std::size_t>& numbers : by_first_byte_)
    std::ranges::stable_sort(numbers, std::greater<>(),
                             [&](std::size_t i) { return tokens_[i].text.size(); });
}

const AddedToken* AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  for (const std::size_t i : by_first_byte_[static_cast<unsigned char>(text[at])])
    if (text.substr(at).starts_with(tokens_[i].text)) return &tokens_[i];
  return nullptr;
}

std::vector<AddedTokens::Found> AddedTokens::find(std::string_view text) const {
  std::vector<Found> found;
  if (is_empty()) return found;
  std::size_t end = 0;  // of the last one, with its white space
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* const token = longest_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    Extent extent{at, at + token->text.size()};
    at = extent.end;
    if (token->is_word && !stands_alone(text, extent)) continue;
    if (token->strips_left) extent.begin = white_space_at_end(text.substr(0, extent.begin));
    extent.begin = std::max(end, extent.begin);
    if (token->strips_right) extent.end += white_space_at_begin(text.substr(extent.end));
    end = extent.end;
    found.push_back({extent, token->id});
  }
  return found;
}

}  // namespace accrue::data
