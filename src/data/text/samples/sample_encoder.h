#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "accrue/data/tokenizer.h"

namespace accrue::data {

/// Tokenizes the text of one sample after the other: by bytes, or by a tokenizer. One per thread:
/// it caches words.
class SampleEncoder {
 public:
  /// Null: bytes. `tokenizer` outlives this.
  explicit SampleEncoder(const Tokenizer* tokenizer);

  /// Appends the tokens before the text of a sample: the template's beginning.
  void begin(std::vector<std::int64_t>& ids);
  /// Appends the tokens of a part of the text, which continues what was added before if it is not
  /// the first one. A text that begins with the template's beginning has it once.
  void add(std::string_view text, std::vector<std::int64_t>& ids);
  /// Appends the tokens after it, unless `ids` end with them: the template's ending, and the end of
  /// text if the tokenizer has one, so that a model learns where to stop.
  void end(std::vector<std::int64_t>& ids) const;

 private:
  void drop_second_beginning(std::vector<std::int64_t>& ids) const;

  const Tokenizer* tokenizer_;
  std::optional<Tokenizer::Encoder> encoder_;
  std::size_t text_at_ = 0;  ///< where the text begins among the ids
  bool is_first_ = true;     ///< for the next part
};

}  // namespace accrue::data
