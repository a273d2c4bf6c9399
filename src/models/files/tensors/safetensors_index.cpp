#include "models/files/tensors/safetensors_index.h"

#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/tensors/safetensors_header.h"
#include "models/files/tensors/same_values.h"

namespace accrue::models {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The JSON document; null if the text is not JSON. A key that an object has twice would hide a
/// tensor.
json parse_without_repeats(const std::string& text, const std::string& file) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw damaged(file, parsed.get<std::string>(), "each name once", "it twice");
    return true;
  };
  return json::parse(text, check, /*allow_exceptions=*/false);
}

/// The files in an index, opened one after the other.
class Shards {
 public:
  explicit Shards(const fs::path& index)
      : index_(index), map_(parse_index(read_file(index), index.string())) {
    for (const auto& [tensor, file] : map_) files_[file].push_back(tensor);
  }

  ShardedTensors open() {
    for (const auto& [name, tensors] : files_) {
      const fs::path path = shard(name, tensors);
      for (StoredTensor& tensor : open_safetensors(path).tensors) take(std::move(tensor), path);
    }
    ShardedTensors all{.tensors = std::move(tensors_), .absent = {}};
    for (const auto& [tensor, file] : map_)
      if (!places_.contains(tensor)) all.absent[tensor] = file;
    return all;
  }

 private:
  struct Place {
    std::size_t index;  ///< in tensors_
    fs::path path;
  };

  fs::path shard(const std::string& name, const std::vector<std::string>& tensors) const {
    const fs::path path = fs::path(index_).replace_filename(name);
    std::error_code unreadable;
    if (fs::exists(path, unreadable)) return path;
    throw usage_error("read " + index_.string(),
                      name + " beside it, which has " + std::to_string(tensors.size()) +
                          " of its " + std::to_string(map_.size()) + " tensors (\"" +
                          tensors.front() + "\")",
                      "no such file", "fetching the rest of the model's files");
  }

  /// A tensor may be in two files if it is the same: which of two different ones counts depends on
  /// the files' names in transformers, and not on the index.
  void take(StoredTensor tensor, const fs::path& path) {
    const auto [place, is_new] = places_.try_emplace(tensor.name, Place{tensors_.size(), path});
    if (is_new)
      tensors_.push_back(std::move(tensor));
    else if (!same_values(tensor, tensors_[place->second.index]))
      throw usage_error("read " + path.string() + ", tensor \"" + tensor.name + '"',
                        "the values that it has in " + place->second.path.filename().string(),
                        "others: one of the two is left from another save",
                        "the files of one save alone, with their index");
  }

  const fs::path& index_;
  WeightMap map_;
  std::map<std::string, std::vector<std::string>> files_;  ///< with the tensors placed in them
  StoredTensors tensors_;
  std::map<std::string, Place> places_;
};

}  // namespace

bool is_name_of_a_file(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

WeightMap parse_index(const std::string& text, const std::string& file) {
  const json document = parse_without_repeats(text, file);
  if (!document.is_object() || !document.contains("weight_map") ||
      !document["weight_map"].is_object() || document["weight_map"].empty())
    throw damaged(file, {}, "a JSON object whose \"weight_map\" names the file of each tensor",
                  document.is_discarded() ? "broken JSON" : "something else");
  WeightMap map;
  for (const auto& [tensor, name] : document["weight_map"].items()) {
    if (!name.is_string() || !is_name_of_a_file(name.get<std::string>()))
      throw damaged(file, tensor, "the name of a file in the index's folder",
                    name.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80));
    map[tensor] = name.get<std::string>();
  }
  return map;
}

ShardedTensors open_shards(const fs::path& index) { return Shards(index).open(); }

Error absent_tensor(const fs::path& index, const std::string& tensor, const std::string& file) {
  return damaged(fs::path(index).replace_filename(file).string(), tensor,
                 "it to be there, as " + index.filename().string() + " says", "no such tensor");
}

StoredTensors open_sharded_safetensors(const fs::path& index) {
  ShardedTensors all = open_shards(index);
  if (!all.absent.empty()) {
    const auto& [tensor, file] = *all.absent.begin();
    throw absent_tensor(index, tensor, file);
  }
  return std::move(all.tensors);
}

}  // namespace accrue::models
