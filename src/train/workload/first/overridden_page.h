#pragma once

#include <string>
#include <vector>

#include "accrue/train/config.h"

namespace accrue::train {

/// `page`, which first_config() wrote, with what `overrides` change in it: it reads as `config`,
/// which came of both. Values that an override states are marked. A page that no override changes
/// is returned as it is. Throws a usage Error as parse_config() does.
std::string overridden_page(const std::string& page, const std::vector<std::string>& overrides,
                            const Config& config);

}  // namespace accrue::train
