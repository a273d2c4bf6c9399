#pragma once

#include <optional>
#include <string>

namespace accrue::train {

struct Key;

/// The name in lower case, with '_' for '-'.
std::string normalised(std::string name);

/// Whether `path` is a section with keys: "optim", "optim.schedule".
bool is_section(const std::string& path);

/// The known key that an unknown one was most likely meant to be; null if none is similar. The
/// key's own name counts more than its section, and a name without its section, or with '_' for
/// '.', counts as the full name.
const Key* nearest_key(const std::string& name);

}  // namespace accrue::train
