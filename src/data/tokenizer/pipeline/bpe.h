#pragma once

#include <c10/util/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace accrue::data {

using TokenId = std::int32_t;

/// Looks strings up by string views.
struct HashOfText {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
using IdsByText = std::unordered_map<std::string, TokenId, HashOfText, std::equal_to<>>;

/// Two adjacent tokens that become one.
struct Merge {
  TokenId left = 0, right = 0, merged = 0;
};

struct BpeParts {
  IdsByText ids;              ///< of the vocabulary; texts of bytes if `of_bytes`
  std::vector<Merge> merges;  ///< in order of priority
  /// Words start as their bytes, and not as their characters.
  bool of_bytes = false;
  /// A word that is a token stays one, whatever merges would give.
  bool ignores_merges = false;
  /// The token for a character that is not a token; none: it is left out.
  std::optional<TokenId> unknown;
  bool fuses_unknown = false;  ///< several in a row become one
  /// The text that should be used for it, but is not a token: such a character is refused.
  std::optional<std::string> missing_unknown;
  /// Tokens of single bytes, which replace such characters before `unknown` does; -1: there is none
  /// for that byte.
  std::optional<std::array<TokenId, 256>> bytes;
};

/// Byte-pair encoding of words (Gage 1994; Sennrich, Haddow and Birch 2016): as long as adjacent
/// tokens have a merge, the one with the highest priority is done, the leftmost of several.
class Bpe {
 public:
  explicit Bpe(BpeParts parts);

  /// Appends the tokens of a word, valid UTF-8.
  void encode(std::string_view word, std::vector<TokenId>& ids) const;
  const IdsByText& ids() const { return parts_.ids; }

 private:
  struct Rank {
    std::int32_t order = 0;
    TokenId merged = 0;
  };
  class Joined;

  static std::uint64_t key(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }
  const Rank* rank_of(TokenId left, TokenId right) const {
    const auto found = ranks_.find(key(left, right));
    return found == ranks_.end() ? nullptr : &found->second;
  }
  void start(std::string_view word, std::vector<TokenId>& symbols) const;
  void start_with_characters(std::string_view word, std::vector<TokenId>& symbols) const;
  bool has_bytes_of(std::string_view character) const;
  void expect_no_missing(std::string_view character) const;
  void merge_few(std::vector<TokenId>& symbols) const;
  void merge_many(std::vector<TokenId>& symbols) const;

  BpeParts parts_;
  ska::flat_hash_map<std::uint64_t, Rank> ranks_;
  std::array<TokenId, 256> byte_ids_{};  ///< of single bytes; -1: no token
};

/// The tokens of words seen before. One per thread.
class WordCache {
 public:
  explicit WordCache(const Bpe& bpe);
  void encode(std::string_view word, std::vector<TokenId>& ids);

 private:
  struct Entry {
    std::string word;
    std::vector<TokenId> ids;
  };
  const Bpe& bpe_;
  std::vector<Entry> entries_;
};

}  // namespace accrue::data
