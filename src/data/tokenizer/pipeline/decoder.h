#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/tokenizer/pipeline/text_growth.h"

namespace accrue::data {

/// How tokens are converted back to text. Pure.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Converts texts of tokens to consecutive pieces of the text. `growth` accounts for the bytes
  /// produced.
  virtual void apply(std::vector<std::string>& pieces, TextGrowth& growth) const = 0;
};

/// The text of the joined pieces.
std::string joined(const std::vector<std::string>& pieces);

/// The one that "decoder" of a tokenizer.json states; null: tokens are joined with a space between
/// them. Knows ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip and Sequence; throws a
/// usage Error of the operation `what` that names any other.
std::unique_ptr<const Decoder> read_decoder(const nlohmann::json& stated, const std::string& what);

}  // namespace accrue::data
