#pragma once

#include <string>

#include "accrue/models/bert.h"

namespace accrue::models {

/// The shape that a BERT config.json states, in `options` (whose other members are kept). Throws a
/// usage Error naming `file` and the key where one is missing, of the wrong type, or asks for what
/// Bert is not.
BertOptions parse_bert_config(const std::string& json, const std::string& file,
                              BertOptions options);

/// config.json for transformers' BertForMaskedLM.
std::string make_bert_config(const BertOptions& options);

}  // namespace accrue::models
