#pragma once

#include <cstddef>

#include "accrue/core/error.h"
#include "data/json/json_part.h"

namespace accrue::data {

/// Bounds the bytes that all parts of a tokenizer together make from one text. Each part may be
/// harmless: nine that replace a letter by ten make a gigabyte of it.
class TextGrowth {
 public:
  /// For a text, or the texts of tokens, of so many bytes. In published tokenizers each part makes
  /// at most eleven bytes from one (a compatibility form), and most add none.
  explicit TextGrowth(std::size_t bytes) : left_(for_each_byte * bytes + for_any_text) {}

  /// A part produces a text of so many bytes. Throws a usage Error if that is too much.
  void take(std::size_t bytes) {
    if (bytes > left_)
      throw usage_error("tokenizer",
                        "a normalizer, pre_tokenizer or decoder that makes at most 64 bytes of "
                        "each byte of a text",
                        "one that makes more", whole_tokenizer_file);
    left_ -= bytes;
  }

 private:
  static constexpr std::size_t for_each_byte = 64, for_any_text = std::size_t{1} << 20;

  std::size_t left_;
};

}  // namespace accrue::data
