#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "data/tokenizer/normalizer.h"

namespace accrue::data {

/// Receives the words of a text, in order; each is valid UTF-8 and is gone after the call.
using WordSink = std::function<void(std::string_view word)>;

/// How a text is cut into words, over which no merge reaches. Pure.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// `before` is what stands before this part of the text. What is made is taken from `growth`.
  virtual void cut(std::string_view text, Before before, TextGrowth& growth,
                   const WordSink& sink) const = 0;
};

struct ReadPreTokenizer {
  std::unique_ptr<const PreTokenizer> cutter;  ///< null: a text is one word
  /// The model's vocabulary is of bytes, each shown as a character (GPT-2's table).
  bool of_bytes = false;
};

/// The one that "pre_tokenizer" of a tokenizer.json states. Knows ByteLevel (as the last), Split,
/// Digits, Metaspace, WhitespaceSplit and Sequence; throws a usage Error, its operation being
/// `what`, that names any other.
ReadPreTokenizer read_pre_tokenizer(const nlohmann::json& stated, const std::string& what);

}  // namespace accrue::data
