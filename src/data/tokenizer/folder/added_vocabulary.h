#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/folder/stated_token.h"

namespace accrue::data {

/// The tokens that are added to a model's vocabulary, with the ids that Hugging Face's tokenizers
/// (0.23) give them: a text of the vocabulary has its id there; any other gets the next one, from
/// the number of the vocabulary's texts on, or after the largest id of an added token if that is
/// not below it. So an id that a file states for an added token does not count, and if the
/// vocabulary has gaps, an added token may get the id of another text.
class AddedVocabulary {
 public:
  /// `vocabulary` is "vocab" of the model, ids by text, and is kept by reference; one that is not
  /// an object has no texts.
  explicit AddedVocabulary(const nlohmann::json& vocabulary) : vocabulary_(vocabulary) {}

  /// Adds tokens one after the other, like one call of add_tokens(). A text that was added before
  /// gets the new properties. Empty texts are left out.
  void add(const std::vector<StatedToken>& tokens);

  /// Whether the text was added.
  bool has(const std::string& text) const { return ids_.contains(text); }
  /// The id of an added token, or of a text of the vocabulary.
  std::optional<std::int64_t> id_of(const std::string& text) const;
  /// The number of texts.
  std::size_t size() const;
  /// "added_tokens" of a tokenizer.json, by id. A text that was special once stays special.
  nlohmann::json to_json() const;

 private:
  std::int64_t vocabulary_size() const {
    return vocabulary_.is_object() ? static_cast<std::int64_t>(vocabulary_.size()) : 0;
  }
  std::int64_t next_id() const;

  const nlohmann::json& vocabulary_;
  std::unordered_map<std::string, std::int64_t> ids_;
  std::map<std::int64_t, StatedToken> tokens_;
  std::set<std::string> special_;
};

}  // namespace accrue::data
