#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/tokenizer/pipeline/text_growth.h"

namespace accrue::data {

/// The kind of text before a part of a text.
enum class PrecedingText {
  nothing,  ///< it begins the text
  token,    ///< an added token, or another word
  text,     ///< text that was encoded already, which this part continues
};

/// How a text is changed before it is cut into words. Pure.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Valid UTF-8 stays so. Nothing is put before a part that continues a text. `growth` accounts
  /// for the bytes produced.
  virtual void apply(std::string& text, PrecedingText before, TextGrowth& growth) const = 0;
};

/// The one that "normalizer" of a tokenizer.json states; null if it states none. Knows NFC, NFD,
/// NFKC, NFKD, Prepend, Replace, Strip and Sequence; throws a usage Error of the operation `what`
/// that names any other.
std::unique_ptr<const Normalizer> read_normalizer(const nlohmann::json& stated,
                                                  const std::string& what);

}  // namespace accrue::data
