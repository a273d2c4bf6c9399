#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "accrue/core/error.h"
#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// The "weight_map" of an index: the file of each tensor, by the tensor's name.
using WeightMap = std::map<std::string, std::string>;

/// Reads the JSON of an index. `file` names it in errors. Throws a usage Error if it has no
/// "weight_map" of that form, names a tensor twice, or names a file that is not in the index's own
/// folder.
WeightMap parse_index(const std::string& json, const std::string& file);

/// Whether `name` has no folder in it: what is in another folder is not the model's.
bool is_name_of_a_file(const std::string& name);

struct ShardedTensors {
  StoredTensors tensors;
  WeightMap absent;  ///< of the index, what none of its files has
};

/// The tensors of all files that an index names, wherever it says that they are, as transformers
/// takes them. Throws as open_sharded_safetensors(), but for tensors that are absent.
ShardedTensors open_shards(const std::filesystem::path& index);

/// The usage Error if `tensor` is needed, which `index` says is in `file` and no file has.
Error absent_tensor(const std::filesystem::path& index, const std::string& tensor,
                    const std::string& file);

}  // namespace accrue::models
