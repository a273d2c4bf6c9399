#include "data/tokenizer/pipeline/bpe.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "accrue/core/error.h"
#include "core/utf8.h"

namespace accrue::data {
namespace {

/// Words of at most this many symbols are searched whole for each merge, without a queue.
constexpr std::size_t few_symbols = 48;
/// Longer words are rare and seldom repeated.
constexpr std::size_t longest_cached = 64;
constexpr std::size_t cached_words = 1 << 15;
constexpr std::int32_t no_merge = std::numeric_limits<std::int32_t>::max();

}  // namespace

Bpe::Bpe(BpeParts parts) : parts_(std::move(parts)) {
  ranks_.reserve(parts_.merges.size());
  for (std::size_t i = 0; i < parts_.merges.size(); ++i) {
    const Merge& merge = parts_.merges[i];
    ranks_[key(merge.left, merge.right)] = {static_cast<std::int32_t>(i), merge.merged};
  }
  parts_.merges = {};
  byte_ids_.fill(-1);
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte)
    if (const auto found = parts_.ids.find(std::string(1, static_cast<char>(byte)));
        found != parts_.ids.end())
      byte_ids_[byte] = found->second;
}

void Bpe::encode(std::string_view word, std::vector<TokenId>& ids) const {
  if (parts_.ignores_merges)
    if (const auto whole = parts_.ids.find(word); whole != parts_.ids.end()) {
      ids.push_back(whole->second);
      return;
    }
  std::vector<TokenId> symbols;
  start(word, symbols);
  if (symbols.size() <= few_symbols)
    merge_few(symbols);
  else
    merge_many(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void Bpe::start(std::string_view word, std::vector<TokenId>& symbols) const {
  symbols.reserve(word.size());
  if (!parts_.of_bytes) {
    start_with_characters(word, symbols);
    return;
  }
  for (const char byte : word)
    if (const TokenId id = byte_ids_[static_cast<unsigned char>(byte)]; id >= 0)
      symbols.push_back(id);
    else if (parts_.unknown)
      symbols.push_back(*parts_.unknown);
    else
      expect_no_missing("a byte");
}

bool Bpe::has_bytes_of(std::string_view character) const {
  return parts_.bytes && std::ranges::all_of(character, [&](char byte) {
           return (*parts_.bytes)[static_cast<unsigned char>(byte)] >= 0;
         });
}

void Bpe::expect_no_missing(std::string_view character) const {
  if (!parts_.missing_unknown) return;
  throw usage_error("tokenizer", "text of characters that are tokens",
                    std::string(character) + ", for which the unk_token \"" +
                        *parts_.missing_unknown + "\" is no token either",
                    "a tokenizer.json whose vocabulary has its unk_token");
}

void Bpe::start_with_characters(std::string_view word, std::vector<TokenId>& symbols) const {
  bool unknown_is_open = false;  // a character without a token may be joined by others
  const auto close = [&] {
    if (unknown_is_open) symbols.push_back(*parts_.unknown);
    unknown_is_open = false;
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::string_view character = word.substr(at, utf8_length(word[at]));
    at += character.size();
    if (const auto found = parts_.ids.find(character); found != parts_.ids.end()) {
      close();
      symbols.push_back(found->second);
    } else if (has_bytes_of(character)) {
      for (const char byte : character)
        symbols.push_back((*parts_.bytes)[static_cast<unsigned char>(byte)]);
    } else if (parts_.unknown) {
      if (!parts_.fuses_unknown) close();
      unknown_is_open = true;
    } else {
      expect_no_missing(character);
    }
  }
  close();
}

void Bpe::merge_few(std::vector<TokenId>& symbols) const {
  std::array<Rank, few_symbols> ranks;  // of each symbol with its right neighbour
  const auto set = [&](std::size_t i) {
    const Rank* const rank = i + 1 < symbols.size() ? rank_of(symbols[i], symbols[i + 1]) : nullptr;
    ranks[i] = rank ? *rank : Rank{no_merge, 0};
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) set(i);
  while (symbols.size() > 1) {
    const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(symbols.size()) - 1;
    const auto first = std::ranges::min_element(ranks.begin(), end, {}, &Rank::order);
    if (first->order == no_merge) return;
    const auto at = static_cast<std::size_t>(first - ranks.begin());
    symbols[at] = first->merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    std::copy(first + 2, end + 1, first + 1);
    set(at);
    if (at > 0) set(at - 1);
  }
}

/// A list of the symbols of a long word, in which adjacent ones are joined.
class Bpe::Joined {
 public:
  Joined(const Bpe& bpe, const std::vector<TokenId>& symbols) : bpe_(bpe) {
    const auto count = static_cast<std::int32_t>(symbols.size());
    nodes_.reserve(symbols.size());
    for (std::int32_t i = 0; i < count; ++i)
      nodes_.push_back({.id = symbols[static_cast<std::size_t>(i)],
                        .before = i - 1,
                        .after = i + 1 < count ? i + 1 : -1});
    for (std::int32_t i = 0; i < count; ++i) offer(i);
  }

  void join_all() {
    while (!candidates_.empty()) {
      const Candidate first = candidates_.top();
      candidates_.pop();
      if (still_stands(first)) join(first);
    }
  }

  void copy_to(std::vector<TokenId>& symbols) const {
    symbols.clear();
    for (std::int32_t i = 0; i >= 0; i = at(i).after) symbols.push_back(at(i).id);
  }

 private:
  struct Node {
    TokenId id = 0;
    std::int32_t before = -1, after = -1;
    bool is_gone = false;
  };
  struct Candidate {
    std::int32_t order = 0, left = 0;
    TokenId left_id = 0, right_id = 0, merged = 0;
    bool operator>(const Candidate& other) const {
      return std::pair(order, left) > std::pair(other.order, other.left);
    }
  };

  const Node& at(std::int32_t i) const { return nodes_[static_cast<std::size_t>(i)]; }
  Node& at(std::int32_t i) { return nodes_[static_cast<std::size_t>(i)]; }

  void offer(std::int32_t left) {
    if (left < 0 || at(left).after < 0) return;
    const TokenId a = at(left).id, b = at(at(left).after).id;
    if (const Rank* const rank = bpe_.rank_of(a, b))
      candidates_.push({rank->order, left, a, b, rank->merged});
  }
  bool still_stands(const Candidate& one) const {
    const Node& left = at(one.left);
    return !left.is_gone && left.id == one.left_id && left.after >= 0 &&
           at(left.after).id == one.right_id;
  }
  void join(const Candidate& one) {
    Node& left = at(one.left);
    Node& right = at(left.after);
    left.id = one.merged;
    right.is_gone = true;
    left.after = right.after;
    if (left.after >= 0) at(left.after).before = one.left;
    offer(left.before);
    offer(one.left);
  }

  const Bpe& bpe_;
  std::vector<Node> nodes_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

void Bpe::merge_many(std::vector<TokenId>& symbols) const {
  Joined joined(*this, symbols);
  joined.join_all();
  joined.copy_to(symbols);
}

WordCache::WordCache(const Bpe& bpe) : bpe_(bpe), entries_(cached_words) {}

void WordCache::encode(std::string_view word, std::vector<TokenId>& ids) {
  if (word.empty()) return;
  if (word.size() > longest_cached) {
    bpe_.encode(word, ids);
    return;
  }
  Entry& entry = entries_[HashOfText()(word) % cached_words];
  if (entry.word != word) {
    entry.word = word;
    entry.ids.clear();
    bpe_.encode(word, entry.ids);
  }
  ids.insert(ids.end(), entry.ids.begin(), entry.ids.end());
}

}  // namespace accrue::data
