#include "models/files/hub/hub_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/config/config_file.h"
#include "models/files/hub/model_folder.h"
#include "models/files/tensors/named_tensors.h"
#include "models/files/tensors/same_values.h"

namespace accrue::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* whole_file = "model.safetensors";
constexpr std::string_view of_an_index = ".safetensors.index.json";

bool is_there(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

HubWeights opened(const fs::path& file) {
  if (!file.string().ends_with(of_an_index))
    return {.tensors = open_safetensors(file).tensors, .origin = file};
  ShardedTensors shards = open_shards(file);
  return {.tensors = std::move(shards.tensors), .origin = file, .absent = std::move(shards.absent)};
}

/// The file that config.json names instead of the usual ones.
std::optional<fs::path> stated_file(const fs::path& folder) {
  constexpr const char* key = "transformers_weights";
  const fs::path file = folder / "config.json";
  if (!is_there(file)) return std::nullopt;
  const ConfigFile config(read_file(file), file.string(), "a folder with the model's weights");
  if (config.is_null_or_absent(key)) return std::nullopt;
  const std::string stated = config.text(key);
  const bool is_known = stated.ends_with(".safetensors") || stated.ends_with(of_an_index);
  if (!is_known || !is_name_of_a_file(stated))
    throw config.wrong(key, "the name of a safetensors file in the folder, or of an index", stated);
  return folder / stated;
}

std::unordered_set<std::string> target_names(const NamedParameters& targets) {
  std::unordered_set<std::string> names;
  for (const NamedParameter& target : targets) names.insert(target.name);
  return names;
}

const StoredTensor* find_named(const StoredTensors& tensors, std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const StoredTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

/// The weights among them, under their full names.
StoredTensors fully_named(const StoredTensors& tensors, const HubNames& names) {
  StoredTensors named;
  for (StoredTensor tensor : tensors) {
    if (names.is_no_weight != nullptr && names.is_no_weight(tensor.name)) continue;
    tensor.name = full_hub_name(tensor.name, names);
    named.push_back(std::move(tensor));
  }
  return named;
}

}  // namespace

std::optional<HubWeights> find_hub_weights(const fs::path& folder) {
  if (const auto stated = stated_file(folder)) return opened(*stated);
  // transformers also uses the whole file if both exist.
  for (const char* file : {whole_file, "model.safetensors.index.json"})
    if (is_there(folder / file)) return opened(folder / file);
  return std::nullopt;
}

HubWeights open_hub_weights(const fs::path& folder) {
  if (auto weights = find_hub_weights(folder)) return std::move(*weights);
  const bool has_pickle = is_there(folder / "pytorch_model.bin");
  throw usage_error("read " + (folder / whole_file).string(),
                    "it, or model.safetensors.index.json beside its parts",
                    has_pickle ? "pytorch_model.bin, a pickle, which this version does not read"
                               : "neither of them",
                    has_pickle ? "transformers' save_pretrained, which writes safetensors"
                               : "a folder with the model's weights");
}

std::string full_hub_name(const std::string& name, const HubNames& names) {
  return name == names.head || name.starts_with(names.prefix) ? name
                                                              : std::string(names.prefix) + name;
}

bool has_another_head(const StoredTensors& tensors, const HubNames& names) {
  const StoredTensors named = fully_named(tensors, names);
  const StoredTensor* head = find_named(named, names.head);
  const StoredTensor* embedding = find_named(named, names.embedding);
  return head != nullptr && embedding != nullptr && !same_values(*head, *embedding);
}

StoredTensors as_hub_weights(const StoredTensors& tensors, const HubNames& names,
                             const std::string& origin, const std::string& what) {
  StoredTensors named = fully_named(tensors, names);
  if (!names.tied_head) return named;
  const auto head = std::find_if(named.begin(), named.end(), [&](const StoredTensor& tensor) {
    return tensor.name == names.head;
  });
  if (head == named.end()) return named;
  const StoredTensor* embedding = find_named(named, names.embedding);
  if (embedding == nullptr) {  // a file may have either of two tensors that share memory
    head->name = names.embedding;
    return named;
  }
  if (!same_values(*head, *embedding))
    throw misfit_of(origin, head->name,
                    "the values of " + std::string(names.embedding) + " (a tied head)", "others",
                    what);
  named.erase(head);
  return named;
}

StoredTensors weights_of_model(const HubWeights& weights, const NamedParameters& targets,
                               const NameAsWeights& as_weights) {
  const std::unordered_set<std::string> known = target_names(targets);
  StoredTensors given = as_weights(weights.tensors);
  std::erase_if(given, [&](const StoredTensor& tensor) { return !known.contains(tensor.name); });
  for (const auto& [name, file] : weights.absent) {
    StoredTensor absent;
    absent.name = name;
    for (const StoredTensor& named : as_weights({absent}))
      if (known.contains(named.name) && find_named(given, named.name) == nullptr)
        throw absent_tensor(weights.origin, name, file);
  }
  return given;
}

std::vector<std::string> left_out_names(const HubWeights& weights, const NamedParameters& targets,
                                        const NameAsWeights& as_weights) {
  const std::unordered_set<std::string> known = target_names(targets);
  std::vector<std::string> names;
  for (const StoredTensor& tensor : weights.tensors)
    for (const StoredTensor& named : as_weights({tensor}))
      if (!known.contains(named.name)) names.push_back(tensor.name);
  return names;
}

StoredTensors with_first_rows(StoredTensors tensors, const PositionCounts& positions,
                              const std::string& origin,
                              const std::function<bool(const std::string& name)>& is_table) {
  check_context(positions.wanted, positions.all, origin);
  if (positions.wanted == positions.all) return tensors;
  for (StoredTensor& tensor : tensors) {
    if (!is_table(tensor.name)) continue;
    if (tensor.shape.empty() || tensor.shape.front() != positions.all)
      throw misfit_of(origin, tensor.name, std::to_string(positions.all) + " rows",
                      c10::str(at::IntArrayRef(tensor.shape)), "weights of a model of this shape");
    const StoredTensor whole = tensor;
    tensor.shape.front() = positions.wanted;
    tensor.copy_to = [whole, rows = positions.wanted](const at::Tensor& target) {
      target.copy_(whole.read().narrow(0, 0, rows));
    };
  }
  return tensors;
}

}  // namespace accrue::models
