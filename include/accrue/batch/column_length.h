#pragma once

#include <string>

namespace accrue::batch {

/// The column that tells how long each sample's list in column `name` is, without its padding:
/// [B] int64. Sources of lines make it for each column of lists; no field can have its name.
inline std::string length_column(const std::string& name) { return name + "/length"; }

}  // namespace accrue::batch
