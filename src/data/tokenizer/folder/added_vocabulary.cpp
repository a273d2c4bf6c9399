#include "data/tokenizer/folder/added_vocabulary.h"

#include <algorithm>

namespace accrue::data {

std::int64_t AddedVocabulary::next_id() const {
  const std::int64_t size = vocabulary_size();
  return tokens_.empty() ? size : std::max(size, tokens_.rbegin()->first + 1);
}

std::optional<std::int64_t> AddedVocabulary::id_of(const std::string& text) const {
  // A larger number is not an id: the reader of the vocabulary refuses it.
  constexpr std::int64_t most = std::int64_t{1} << 32;
  if (const auto added = ids_.find(text); added != ids_.end()) return added->second;
  const auto known = vocabulary_.find(text);
  if (known == vocabulary_.end() || !known->is_number_integer() || *known < 0 || *known >= most)
    return std::nullopt;
  return known->get<std::int64_t>();
}

void AddedVocabulary::add(const std::vector<StatedToken>& tokens) {
  std::int64_t next = next_id();
  for (const StatedToken& token : tokens) {
    if (token.text.empty()) continue;
    const std::optional<std::int64_t> known = id_of(token.text);
    const std::int64_t id = known ? *known : next++;
    ids_[token.text] = id;
    tokens_.insert_or_assign(id, token);
    if (token.is_special) special_.insert(token.text);
  }
}

std::size_t AddedVocabulary::size() const {
  std::size_t count = static_cast<std::size_t>(vocabulary_size());
  for (const auto& [text, id] : ids_) count += vocabulary_.contains(text) ? 0 : 1;
  return count;
}

nlohmann::json AddedVocabulary::to_json() const {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [id, token] : tokens_)
    all.push_back({{"id", id},
                   {"content", token.text},
                   {"single_word", token.is_word},
                   {"lstrip", token.strips_left},
                   {"rstrip", token.strips_right},
                   {"normalized", token.is_normalized()},
                   {"special", special_.contains(token.text)}});
  return all;
}

}  // namespace accrue::data
