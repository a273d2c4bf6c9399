#pragma once

#include <optional>
#include <string_view>

#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/regex.h"

namespace accrue::data {

/// What is done with the matches that a text is cut at, in the words of Hugging Face's tokenizers.
struct Cut {
  enum class Behaviour { isolated, removed, merged_with_previous, merged_with_next, contiguous };
  Behaviour behaviour = Behaviour::isolated;
  bool inverted = false;  ///< what lies between matches is taken for one
};

/// Cuts one text at matches, which it is told of from the left.
class Cutter {
 public:
  Cutter(std::string_view text, Cut how, const WordSink& sink)
      : text_(text), how_(how), sink_(sink) {}

  void add(Extent match);
  void end();

 private:
  void piece(Extent extent, bool is_match);
  void flush();
  /// A match of nothing cuts, and is no word.
  void put(Extent extent) const {
    if (extent.size() > 0) sink_(text_.substr(extent.begin, extent.size()));
  }

  std::string_view text_;
  Cut how_;
  const WordSink& sink_;
  std::size_t end_ = 0;         ///< of what was cut
  std::optional<Extent> open_;  ///< a word that may still grow
  bool previous_is_match_ = false;
};

}  // namespace accrue::data
