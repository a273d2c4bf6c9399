#include "models/files/safetensors_index.h"

#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "accrue/core/error.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/safetensors_header.h"

namespace accrue::models {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The JSON document; null where the text is none. A key that an object has twice would hide a
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

/// Whether `name` has no folder in it: what is in another folder is not the model's.
bool is_name_of_a_file(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

class Shards {
 public:
  explicit Shards(const fs::path& index)
      : index_(index), map_(parse_index(read_file(index), index.string())) {
    for (const auto& [tensor, file] : map_) missing_[file].insert(tensor);
  }

  StoredTensors open() {
    StoredTensors all;
    for (auto& [name, tensors] : missing_) {
      const fs::path path = shard(name, tensors.size());
      for (StoredTensor& tensor : open_safetensors(path).tensors) {
        check_place(tensor.name, name, path);
        tensors.erase(tensor.name);
        all.push_back(std::move(tensor));
      }
      if (!tensors.empty())
        throw damaged(path.string(), *tensors.begin(),
                      "it to be there, as " + index_name() + " says", "no such tensor");
    }
    return all;
  }

 private:
  std::string index_name() const { return index_.filename().string(); }

  fs::path shard(const std::string& name, std::size_t tensors) const {
    const fs::path path = fs::path(index_).replace_filename(name);
    std::error_code unreadable;
    if (fs::exists(path, unreadable)) return path;
    throw usage_error("read " + index_.string(),
                      name + " beside it, which has " + std::to_string(tensors) + " of its " +
                          std::to_string(map_.size()) + " tensors",
                      "no such file", "fetching the rest of the model's files");
  }

  void check_place(const std::string& tensor, const std::string& file, const fs::path& path) const {
    const auto entry = map_.find(tensor);
    if (entry != map_.end() && entry->second == file) return;
    throw damaged(path.string(), tensor, "only the tensors that " + index_name() + " says are here",
                  entry == map_.end() ? "one that it does not name"
                                      : "one that it says is in " + entry->second);
  }

  const fs::path& index_;
  WeightMap map_;
  std::map<std::string, std::set<std::string>>
      missing_;  ///< by file: tensors of it that are not found yet
};

}  // namespace

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

StoredTensors open_sharded_safetensors(const fs::path& index) { return Shards(index).open(); }

}  // namespace accrue::models
