#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/tokenizer/text_growth.h"

namespace accrue::data {

/// What tokens become when they are put together again. Pure.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Texts of tokens to pieces of the text, which stand behind each other. What is made is taken
  /// from `growth`.
  virtual void apply(std::vector<std::string>& pieces, TextGrowth& growth) const = 0;
};

/// The text that pieces are together.
std::string joined(const std::vector<std::string>& pieces);

/// The one that "decoder" of a tokenizer.json states; null: tokens stand behind each other with a
/// space between them. Knows ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip and Sequence;
/// throws a usage Error, its operation being `what`, that names any other.
std::unique_ptr<const Decoder> read_decoder(const nlohmann::json& stated, const std::string& what);

}  // namespace accrue::data
