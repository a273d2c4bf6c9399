#pragma once

#include <string>

namespace accrue::batch {

/// The name of the column with the length of each sample's list in column `name`, without padding:
/// [B] int64. Sources of lines add it for each column of lists; no field can have its name.
inline std::string length_column(const std::string& name) { return name + "/length"; }

}  // namespace accrue::batch
