#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace accrue::data {

/// For each position of a text the longest of many words that begins there: Aho and Corasick,
/// "Efficient string matching" (CACM 18, 1975), on words and texts from their ends.
class LongestMatches {
 public:
  /// A word that is not empty. If a word is added again the first one counts.
  void add(std::string_view word, std::size_t number);
  /// Call it after the last word.
  void finish();

  struct Found {
    std::size_t at = 0;
    std::size_t number = 0;
  };
  /// The positions where a word begins, from the last to the first.
  std::vector<Found> find(std::string_view text) const;

 private:
  using Node = std::uint32_t;  ///< the end of a word, or of several: 0 has no letters
  static constexpr Node none = static_cast<Node>(-1);

  /// The node that has one letter more in front; 0 if there is none.
  Node longer(Node node, char letter) const;
  Node make_longer(Node node, char letter);
  /// The longest node made of some of the node's first letters, with this one in front.
  Node next(Node node, char letter) const;

  std::array<Node, 256> of_one_{};      ///< nodes of one letter
  std::vector<char> first_letter_{0};   ///< by node, like all that follow
  std::vector<Node> without_first_{0};  ///< until finish()
  std::vector<Node> first_longer_{0};   ///< a node with one letter more in front
  std::vector<Node> beside_{0};         ///< another one with the same without_first_
  std::vector<Node> shorter_{0};        ///< the longest other node that it begins with
  std::vector<Node> word_{none};        ///< the number of the longest word that it begins with
};

}  // namespace accrue::data
