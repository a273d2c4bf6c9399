#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "accrue/data/tokenizer.h"

namespace accrue::data {

/// The tokens around a text that "post_processor" of a tokenizer.json states for one text. Knows
/// ByteLevel (which adds none), TemplateProcessing, RobertaProcessing, BertProcessing and Sequence;
/// throws a usage Error of the operation `what` that names any other.
Tokenizer::Around read_template(const nlohmann::json& stated, const std::string& what);

}  // namespace accrue::data
