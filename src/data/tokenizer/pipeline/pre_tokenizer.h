#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "data/tokenizer/pipeline/normalizer.h"

namespace accrue::data {

/// Receives the words of a text, in order; each is valid UTF-8 and only valid during the call.
using WordSink = std::function<void(std::string_view word)>;

/// How a text is cut into words, which no merge crosses. Pure.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// `before` precedes this part of the text. `growth` accounts for the bytes produced.
  virtual void cut(std::string_view text, PrecedingText before, TextGrowth& growth,
                   const WordSink& sink) const = 0;
};

struct ReadPreTokenizer {
  std::unique_ptr<const PreTokenizer> cutter;  ///< null: a text is one word
  /// The model's vocabulary is of bytes, each represented as a character (GPT-2's table).
  bool of_bytes = false;
};

/// The one that "pre_tokenizer" of a tokenizer.json states. Knows ByteLevel (as the last), Split,
/// Digits, Metaspace, WhitespaceSplit and Sequence; throws a usage Error of the operation `what`
/// that names any other.
ReadPreTokenizer read_pre_tokenizer(const nlohmann::json& stated, const std::string& what);

}  // namespace accrue::data
