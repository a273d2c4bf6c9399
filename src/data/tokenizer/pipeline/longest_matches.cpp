#include "data/tokenizer/pipeline/longest_matches.h"

#include <algorithm>
#include <numeric>

namespace accrue::data {

LongestMatches::Node LongestMatches::longer(Node node, char letter) const {
  if (node == 0) return of_one_[static_cast<unsigned char>(letter)];
  Node found = first_longer_[node];
  while (found != 0 && first_letter_[found] != letter) found = beside_[found];
  return found;
}

LongestMatches::Node LongestMatches::make_longer(Node node, char letter) {
  if (const Node found = longer(node, letter); found != 0) return found;
  const auto made = static_cast<Node>(word_.size());
  first_letter_.push_back(letter);
  without_first_.push_back(node);
  first_longer_.push_back(0);
  beside_.push_back(node == 0 ? 0 : first_longer_[node]);
  shorter_.push_back(0);
  word_.push_back(none);
  (node == 0 ? of_one_[static_cast<unsigned char>(letter)] : first_longer_[node]) = made;
  return made;
}

LongestMatches::Node LongestMatches::next(Node node, char letter) const {
  for (; node != 0; node = shorter_[node])
    if (const Node found = longer(node, letter); found != 0) return found;
  return longer(0, letter);
}

void LongestMatches::add(std::string_view word, std::size_t number) {
  Node node = 0;
  for (auto letter = word.rbegin(); letter != word.rend(); ++letter)
    node = make_longer(node, *letter);
  if (word_[node] == none) word_[node] = static_cast<Node>(number);
}

/// Nodes by their number of letters: the beginning of a node is shorter, and done before it.
void LongestMatches::finish() {
  std::vector<std::uint32_t> depth(word_.size(), 0);
  for (Node node = 1; node < depth.size(); ++node) depth[node] = depth[without_first_[node]] + 1;
  std::vector<Node> order(word_.size());
  std::iota(order.begin(), order.end(), Node{0});
  std::ranges::stable_sort(order, {}, [&](Node node) { return depth[node]; });
  for (const Node node : order) {
    if (depth[node] > 1) shorter_[node] = next(shorter_[without_first_[node]], first_letter_[node]);
    if (word_[node] == none) word_[node] = word_[shorter_[node]];
  }
  without_first_ = {};
}

std::vector<LongestMatches::Found> LongestMatches::find(std::string_view text) const {
  std::vector<Found> found;
  Node node = 0;
  for (std::size_t at = text.size(); at > 0; --at) {
    node = next(node, text[at - 1]);
    if (word_[node] != none) found.push_back({at - 1, word_[node]});
  }
  return found;
}

}  // namespace accrue::data
