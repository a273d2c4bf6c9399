#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace accrue::data {

/// What a text becomes before it is cut into words. Pure.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Valid UTF-8 stays so.
  virtual void apply(std::string& text) const = 0;
};

/// The one that "normalizer" of a tokenizer.json states; null where it states none. Knows NFC, NFD,
/// NFKC, NFKD, Prepend, Replace, Strip and Sequence; throws a usage Error, its operation being
/// `what`, that names any other.
std::unique_ptr<const Normalizer> read_normalizer(const nlohmann::json& stated,
                                                  const std::string& what);

}  // namespace accrue::data
