#include "models/files/gguf/tokenizer/gguf_merges.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace accrue::models {

std::vector<GgufMerge> all_gguf_merges(const std::vector<std::string>& tokens,
                                       const std::vector<GgufTokenType>& types) {
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    if (types[id] != GgufTokenType::unused) ids.emplace(tokens[id], id);
  std::vector<GgufMerge> merges;
  for (std::size_t whole = 0; whole < tokens.size(); ++whole) {
    if (types[whole] != GgufTokenType::normal && types[whole] != GgufTokenType::user_defined)
      continue;
    const auto first = std::ssize(merges);
    const std::string_view text = tokens[whole];
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
      if (left != ids.end() && right != ids.end())
        merges.push_back({left->second, right->second, whole});
    }
    std::sort(merges.begin() + first, merges.end(), [](const GgufMerge& a, const GgufMerge& b) {
      return std::pair(a.left, a.right) < std::pair(b.left, b.right);
    });
  }
  return merges;
}

}  // namespace accrue::models
