#pragma once

#include <string>

#include "accrue/models/bert.h"

namespace accrue::models {

/// The shape in a BERT config.json, written to `options` (whose other members are kept). Throws a
/// usage Error naming `file` and the key if one is missing, of the wrong type, or requests
/// something that Bert does not support.
BertOptions parse_bert_config(const std::string& json, const std::string& file,
                              BertOptions options);

/// config.json for transformers' BertForMaskedLM.
std::string make_bert_config(const BertOptions& options);

}  // namespace accrue::models
