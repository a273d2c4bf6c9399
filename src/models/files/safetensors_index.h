#pragma once

#include <map>
#include <string>

namespace accrue::models {

/// The "weight_map" of an index: the file of each tensor, by the tensor's name.
using WeightMap = std::map<std::string, std::string>;

/// Reads the JSON of an index. `file` names it in errors. Throws a usage Error where it has no
/// "weight_map" of that form, names a tensor twice, or names a file that is not in the index's own
/// folder.
WeightMap parse_index(const std::string& json, const std::string& file);

}  // namespace accrue::models
