#pragma once

#include <string>
#include <vector>

#include "accrue/models/adapter_options.h"

namespace accrue::models {

/// The options that an adapter_config.json states, without its targets. Throws a usage Error naming
/// `file` and the key where one is missing, of the wrong type, or asks for what is not here.
AdapterOptions parse_adapter_config(const std::string& json, const std::string& file);

/// adapter_config.json for adapters on the linear layers `adapted`; `linear` are all that the base
/// has.
std::string make_adapter_config(const AdapterOptions& options, const std::string& base,
                                const std::vector<std::string>& adapted,
                                const std::vector<std::string>& linear);

/// The fewest words by which PEFT finds `adapted` and no others among `linear`: it takes a layer
/// whose name is the word or ends in a dot and the word.
std::vector<std::string> target_modules(const std::vector<std::string>& adapted,
                                        const std::vector<std::string>& linear);

}  // namespace accrue::models
