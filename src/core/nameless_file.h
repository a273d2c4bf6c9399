#pragma once

#include <filesystem>
#include <string_view>

#include "core/descriptor.h"

namespace accrue {

/// A new file without a name in `folder`, to read and to write. It vanishes when it is closed, also
/// by the death of the process. Throws a usage Error of `operation` if none can be made.
Descriptor nameless_file(std::string_view operation, const std::filesystem::path& folder);

}  // namespace accrue
