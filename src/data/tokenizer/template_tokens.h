#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/tokenizer/bpe.h"

namespace accrue::data {

/// Tokens that are put around those of a text.
struct TemplateTokens {
  std::vector<TokenId> before, after;
};

/// Those that "post_processor" of a tokenizer.json states for one text. Knows ByteLevel (which adds
/// none), TemplateProcessing and Sequence; throws a usage Error, its operation being `what`, that
/// names any other.
TemplateTokens read_template(const nlohmann::json& stated, const std::string& what);

}  // namespace accrue::data
