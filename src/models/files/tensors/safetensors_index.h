#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "accrue/core/error.h"
#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// The "weight_map" of an index: the file of each tensor, by the tensor's name.
using WeightMap = std::map<std::string, std::string>;

/// Parses the JSON of an index. `file` names it in errors. Throws a usage Error if it has no
/// "weight_map" of that form, names a tensor twice, or names a file that is not in the index's own
/// folder.
WeightMap parse_index(const std::string& json, const std::string& file);

/// Whether `name` is without a folder: files in other folders are not the model's.
bool is_name_of_a_file(const std::string& name);

struct ShardedTensors {
  StoredTensors tensors;
  WeightMap absent;  ///< tensors of the index that none of its files has
};

/// The tensors of all files in an index, whichever file it places them in, as in transformers.
/// Throws as open_sharded_safetensors(), except for tensors that are absent.
ShardedTensors open_shards(const std::filesystem::path& index);

/// The usage Error if a needed `tensor` is in no file; `index` places it in `file`.
Error absent_tensor(const std::filesystem::path& index, const std::string& tensor,
                    const std::string& file);

}  // namespace accrue::models
