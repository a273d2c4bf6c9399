#include "models/files/gguf/tokenizer/gguf_scores.h"

#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include "core/utf8.h"
#include "data/tokenizer/pipeline/part_forms.h"
#include "models/files/gguf/container/gguf_format.h"
#include "models/files/gguf/tokenizer/gguf_merges.h"

namespace accrue::models {
namespace {

std::uint64_t key_of_pair(std::uint64_t left, std::uint64_t right) { return left << 32 | right; }

data::Bpe merging_all_words(const data::ReadBpe& read) {
  data::BpeParts parts = read.parts;
  parts.ignores_merges = false;
  return data::Bpe(std::move(parts));
}

bool is_one_character(const std::string& text) {
  return !text.empty() && utf8_length(text.front()) == text.size();
}

/// Merges are ranked one by one, and tokens have one score each. Both are equivalent if all merges
/// into a token are consecutive, and if llama.cpp, which joins everything that is then a token,
/// joins no two adjacent tokens without a merge.
///
/// Two tokens can be adjacent, at any time while a text is encoded, only if the encoding of their
/// joined text alone begins with these two and stays so: merges go by rank and read nothing further
/// away. This holds if every merge comes after those that make its halves.
class MergesAsScores {
 public:
  MergesAsScores(const data::ReadBpe& bpe, const std::vector<std::string>& tokens,
                 const std::vector<GgufTokenType>& types)
      : bpe_(bpe), tokens_(tokens), types_(types), places_(tokens.size(), -1) {}

  GgufScores find() {
    GgufScores found;
    found.obstacle = obstacle();
    if (found.obstacle.empty()) found.scores = scores();
    return found;
  }

 private:
  const std::string& text(data::TokenId id) const { return tokens_[static_cast<std::size_t>(id)]; }
  std::string quoted(data::TokenId id) const { return quoted_gguf_text(text(id)); }
  std::int64_t& place(data::TokenId id) { return places_[static_cast<std::size_t>(id)]; }

  std::string obstacle() {
    if (!has_all_bytes()) return "a vocabulary without a token of each byte, <0x00> to <0xFF>";
    if (std::string found = place_merges(); !found.empty()) return found;
    if (std::string found = unknown_character(); !found.empty()) return found;
    if (std::string found = other_merges(); !found.empty()) return found;
    if (!bpe_.parts.ignores_merges) return {};
    const std::string apart = token_out_of_reach(bpe_, types_);
    return apart.empty() ? "" : "ignore_merges, by which " + apart + " is a token without merges";
  }

  bool has_all_bytes() const {
    return bpe_.parts.bytes &&
           std::ranges::all_of(*bpe_.parts.bytes, [](data::TokenId id) { return id >= 0; });
  }

  /// Numbers the tokens in the order in which merges make them.
  std::string place_merges() {
    std::int64_t next = 0;
    data::TokenId before = -1;
    for (const data::Merge& merge : bpe_.parts.merges) {
      pairs_.insert(key_of_pair(static_cast<std::uint64_t>(merge.left),
                                static_cast<std::uint64_t>(merge.right)));
      for (const data::TokenId half : {merge.left, merge.right})
        if (is_byte_token(text(half))) return "a merge of the byte " + quoted(half);
      if (merge.merged == before) continue;
      if (place(merge.merged) >= 0)
        return "merges into " + quoted(merge.merged) + " apart from each other";
      place(merge.merged) = next++;
      before = merge.merged;
    }
    return {};
  }

  /// llama.cpp joins characters that are not tokens.
  std::string unknown_character() const {
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (types_[id] != GgufTokenType::normal) continue;
      const std::string_view token = tokens_[id];
      for (std::size_t at = 0; at < token.size(); at += utf8_length(token[at]))
        if (!bpe_.parts.ids.contains(token.substr(at, utf8_length(token[at]))))
          return "the token " + quoted_gguf_text(token) + ", with a character that is no token";
    }
    return {};
  }

  std::string merge_before_its_halves() {
    for (const data::Merge& merge : bpe_.parts.merges)
      for (const data::TokenId half : {merge.left, merge.right})
        if (!is_one_character(text(half)) &&
            (place(half) < 0 || place(half) >= place(merge.merged)))
          return "the merge of " + quoted(merge.left) + " and " + quoted(merge.right) +
                 " before one that makes " + quoted(half);
    return {};
  }

  /// Whether a token is taken out of a text before spaces are marked and anything is merged.
  bool is_found_before(std::size_t id) const {
    return types_[id] == GgufTokenType::user_defined &&
           tokens_[id].find(data::kMarkedSpace) == std::string::npos;
  }

  /// The joins that only llama.cpp makes.
  std::string other_merges() {
    std::vector<GgufMerge> others = all_gguf_merges(tokens_, types_);
    std::erase_if(others, [&](const GgufMerge& merge) {
      return pairs_.contains(key_of_pair(merge.left, merge.right)) || is_found_before(merge.whole);
    });
    if (others.empty()) return {};
    if (std::string found = merge_before_its_halves(); !found.empty()) return found;
    const data::Bpe bpe = merging_all_words(bpe_);
    std::vector<data::TokenId> ids;
    for (const GgufMerge& merge : others) {
      const std::vector<data::TokenId> both{static_cast<data::TokenId>(merge.left),
                                            static_cast<data::TokenId>(merge.right)};
      ids.clear();
      bpe.encode(tokens_[merge.whole], ids);
      if (ids == both)
        return "no merge of " + quoted(both[0]) + " and " + quoted(both[1]) +
               ", which are a token together";
    }
    return {};
  }

  /// Tokens that no merge makes come last, each with its own score.
  std::vector<float> scores() const {
    std::int64_t next = *std::max_element(places_.begin(), places_.end()) + 1;
    std::vector<float> scores;
    scores.reserve(places_.size());
    for (const std::int64_t place : places_)
      scores.push_back(-static_cast<float>(place >= 0 ? place : next++));
    return scores;
  }

  const data::ReadBpe& bpe_;
  const std::vector<std::string>& tokens_;
  const std::vector<GgufTokenType>& types_;
  std::vector<std::int64_t> places_;  ///< by token id; -1: no merge makes it
  std::unordered_set<std::uint64_t> pairs_;
};

}  // namespace

GgufScores scores_of_merges(const data::ReadBpe& bpe, const std::vector<std::string>& tokens,
                            const std::vector<GgufTokenType>& types) {
  return MergesAsScores(bpe, tokens, types).find();
}

std::string token_out_of_reach(const data::ReadBpe& read, const std::vector<GgufTokenType>& types) {
  const data::Bpe bpe = merging_all_words(read);
  std::vector<data::TokenId> ids;
  for (const auto& [text, id] : read.parts.ids) {
    if (types.at(static_cast<std::size_t>(id)) != GgufTokenType::normal) continue;
    ids.clear();
    bpe.encode(text, ids);
    if (ids.size() != 1 || ids.front() != id)
      return quoted_gguf_text(read.texts.at(static_cast<std::size_t>(id)));
  }
  return {};
}

}  // namespace accrue::models
