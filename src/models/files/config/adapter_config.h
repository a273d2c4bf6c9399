#pragma once

#include <string>
#include <vector>

#include "accrue/models/adapter_options.h"

namespace accrue::models {

/// The options in an adapter_config.json, without its targets. Throws a usage Error naming `file`
/// and the key if one is missing, of the wrong type, or requests something that is not supported.
AdapterOptions parse_adapter_config(const std::string& json, const std::string& file);

/// adapter_config.json for adapters on the linear layers `adapted`; `linear` are all layers of the
/// base.
std::string make_adapter_config(const AdapterOptions& options, const std::string& base,
                                const std::vector<std::string>& adapted,
                                const std::vector<std::string>& linear);

/// The fewest words by which PEFT finds `adapted` and no others among `linear`: it takes a layer
/// whose name is the word or ends in a dot and the word.
std::vector<std::string> target_modules(const std::vector<std::string>& adapted,
                                        const std::vector<std::string>& linear);

}  // namespace accrue::models
