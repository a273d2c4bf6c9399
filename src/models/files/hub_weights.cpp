#include "models/files/hub_weights.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "accrue/models/safetensors.h"
#include "models/files/model_folder.h"
#include "models/files/named_tensors.h"

namespace accrue::models {
namespace {

bool same_values(const StoredTensor& head, const StoredTensor& embedding) {
  return head.shape == embedding.shape &&
         at::equal(head.read().to(embedding.dtype), embedding.read());
}

}  // namespace

HubWeights open_hub_weights(const std::filesystem::path& folder) {
  const std::filesystem::path whole = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  std::error_code unreadable;
  const auto is_there = [&](const std::filesystem::path& path) {
    return std::filesystem::exists(path, unreadable);
  };
  // transformers, too, takes the whole file where there are both.
  if (is_there(whole)) return {open_safetensors(whole).tensors, whole.string()};
  if (is_there(index)) return {open_sharded_safetensors(index), index.string()};
  const bool has_pickle = is_there(folder / "pytorch_model.bin");
  throw usage_error("read " + whole.string(),
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

StoredTensors as_hub_weights(const StoredTensors& tensors, const HubNames& names,
                             const std::string& origin, const std::string& what) {
  StoredTensors named;
  for (StoredTensor tensor : tensors) {
    if (names.is_no_weight != nullptr && names.is_no_weight(tensor.name)) continue;
    tensor.name = full_hub_name(tensor.name, names);
    named.push_back(std::move(tensor));
  }
  if (!names.tied_head) return named;
  const auto find = [&](std::string_view name) {
    return std::find_if(named.begin(), named.end(),
                        [&](const StoredTensor& tensor) { return tensor.name == name; });
  };
  const auto head = find(names.head), embedding = find(names.embedding);
  if (head == named.end()) return named;
  if (embedding != named.end() && !same_values(*head, *embedding))
    throw misfit_of(origin, head->name,
                    "the values of " + std::string(names.embedding) + " (a tied head)", "others",
                    what);
  named.erase(head);
  return named;
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
