#pragma once

#include <optional>
#include <string>

namespace accrue::train {

/// The known key that an unknown one was most likely meant to be: the key's own name counts more
/// than its section.
std::string nearest_key(const std::string& name);

/// What a key of another system is called here, as a piece of advice; none where the last part of
/// `path` is not such a name.
std::optional<std::string> translation(const std::string& path);

}  // namespace accrue::train
