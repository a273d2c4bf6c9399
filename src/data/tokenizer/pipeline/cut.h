#pragma once

#include <optional>
#include <string_view>

#include "data/tokenizer/pipeline/pre_tokenizer.h"
#include "data/tokenizer/regex/regex.h"

namespace accrue::data {

/// How the matches at which a text is cut are treated, in the terms of Hugging Face's tokenizers.
struct Cut {
  enum class Behaviour { isolated, removed, merged_with_previous, merged_with_next, contiguous };
  Behaviour behaviour = Behaviour::isolated;
  bool inverted = false;  ///< the text between matches counts as a match
};

/// Cuts one text at matches, which it receives from the left.
class Cutter {
 public:
  Cutter(std::string_view text, Cut how, const WordSink& sink)
      : text_(text), how_(how), sink_(sink) {}

  void add(Extent match);
  void end();

 private:
  void piece(Extent extent, bool is_match);
  void flush();
  /// An empty match cuts, and is not a word.
  void put(Extent extent) const {
    if (extent.size() > 0) sink_(text_.substr(extent.begin, extent.size()));
  }

  std::string_view text_;
  Cut how_;
  const WordSink& sink_;
  std::size_t end_ = 0;         ///< of the part that was cut
  std::optional<Extent> open_;  ///< a word that may still grow
  bool previous_is_match_ = false;
};

}  // namespace accrue::data
