#include "accrue/models/gpt2_io.h"

#include <array>
#include <set>
#include <string_view>
#include <unordered_map>

#include "accrue/core/error.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/gpt2_config.h"
#include "models/files/model_folder.h"

namespace accrue::models {
namespace {

constexpr std::string_view prefix = "transformer.";
constexpr std::string_view tied_head = "lm_head.weight";
constexpr std::string_view position_embedding = "transformer.wpe.weight";

/// Hugging Face keeps these as Conv1D, [in, out].
bool is_transposed(std::string_view name) {
  constexpr std::array<std::string_view, 4> matrices{".attn.c_attn.weight", ".attn.c_proj.weight",
                                                     ".mlp.c_fc.weight", ".mlp.c_proj.weight"};
  return std::any_of(matrices.begin(), matrices.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

/// Causal masks that older versions of transformers saved as if they were weights.
bool is_mask(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

std::string full_name(const std::string& name) {
  return name == tied_head || name.starts_with(prefix) ? name : std::string(prefix) + name;
}

Error misfit(const std::string& origin, const std::string& tensor, std::string_view expected,
             std::string_view received) {
  return usage_error("load " + origin + ", tensor \"" + tensor + '"', expected, received,
                     "weights of a GPT-2 of this shape");
}

using TensorsByName = std::unordered_map<std::string, const StoredTensor*>;

TensorsByName by_full_name(const StoredTensors& tensors, const std::string& origin) {
  TensorsByName result;
  for (const StoredTensor& tensor : tensors) {
    if (is_mask(tensor.name)) continue;
    if (!result.emplace(full_name(tensor.name), &tensor).second)
      throw misfit(origin, tensor.name, "each tensor once", "it with and without \"transformer.\"");
  }
  return result;
}

void check_fits(const StoredTensor& tensor, const NamedParameter& target,
                const std::string& origin) {
  if (!at::isFloatingType(tensor.dtype))
    throw misfit(origin, target.name, "floating-point numbers", c10::toString(tensor.dtype));
  if (tensor.shape != target.tensor.sizes())
    throw misfit(origin, target.name, "shape " + c10::str(target.tensor.sizes()),
                 c10::str(at::IntArrayRef(tensor.shape)));
}

bool same_values(const StoredTensor& head, const StoredTensor& embedding) {
  return head.shape == embedding.shape &&
         at::equal(head.read().to(embedding.dtype), embedding.read());
}

/// The tied head may be stated a second time, but must then be the embedding.
void take_tied_head(TensorsByName& tensors, const std::string& origin) {
  const auto head = tensors.find(std::string(tied_head));
  if (head == tensors.end()) return;
  const auto embedding = tensors.find("transformer.wte.weight");
  if (embedding != tensors.end() && !same_values(*head->second, *embedding->second))
    throw misfit(origin, head->first, "the token embedding's values (a tied head)", "others");
  tensors.erase(head);
}

struct Weights {
  StoredTensors tensors;
  std::string origin;  ///< the file that names them in errors
};

/// transformers, too, takes the whole file where there are both.
Weights open_weights(const std::filesystem::path& folder) {
  const std::filesystem::path whole = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  std::error_code unreadable;
  const auto is_there = [&](const std::filesystem::path& path) {
    return std::filesystem::exists(path, unreadable);
  };
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

}  // namespace

NamedParameters to_hugging_face(const NamedParameters& parameters) {
  NamedParameters result;
  for (const auto& [name, tensor] : parameters)
    result.push_back({name, is_transposed(name) ? tensor.detach().t() : tensor.detach()});
  return result;
}

void load_hugging_face(Gpt2& model, const StoredTensors& tensors, const std::string& origin) {
  const at::NoGradGuard no_grad;
  TensorsByName given = by_full_name(tensors, origin);
  take_tied_head(given, origin);
  const NamedParameters targets = to_hugging_face(model.parameters());
  for (const NamedParameter& target : targets) {
    const auto found = given.find(target.name);
    if (found == given.end()) throw misfit(origin, target.name, "it to be there", "no such tensor");
    check_fits(*found->second, target, origin);
  }
  if (given.size() != targets.size()) {
    std::set<std::string> extra;
    for (const auto& [name, tensor] : given) extra.insert(name);
    for (const NamedParameter& target : targets) extra.erase(target.name);
    throw misfit(origin, *extra.begin(), "only the tensors of this model",
                 std::to_string(extra.size()) + " more, this one among them");
  }
  // The targets are views of the parameters and share their version counters, so that cached copies
  // are made anew.
  for (const NamedParameter& target : targets) given.at(target.name)->copy_to(target.tensor);
}

StoredTensors with_first_positions(StoredTensors tensors, std::int64_t positions,
                                   std::int64_t context, const std::string& origin) {
  if (context > positions)
    throw usage_error("load " + origin + " with model.context = " + std::to_string(context),
                      "at most the " + std::to_string(positions) + " positions it was trained on",
                      std::to_string(context), "model.context = " + std::to_string(positions));
  if (context == positions) return tensors;
  for (StoredTensor& tensor : tensors) {
    if (full_name(tensor.name) != position_embedding) continue;
    if (tensor.shape.empty() || tensor.shape.front() != positions)
      throw misfit(origin, tensor.name, std::to_string(positions) + " rows",
                   c10::str(at::IntArrayRef(tensor.shape)));
    const StoredTensor whole = tensor;
    tensor.shape.front() = context;
    tensor.copy_to = [whole, context](const at::Tensor& target) {
      target.copy_(whole.read().narrow(0, 0, context));
    };
  }
  return tensors;
}

Gpt2Options read_gpt2_shape(const std::filesystem::path& folder, Gpt2Options options) {
  const std::filesystem::path config = folder / "config.json";
  return parse_gpt2_config(read_file(config), config.string(), options);
}

std::unique_ptr<Gpt2> load_gpt2_folder(const std::filesystem::path& folder, Gpt2Options options,
                                       std::optional<std::int64_t> context) {
  options = read_gpt2_shape(folder, options);
  const auto [tensors, origin] = open_weights(folder);
  const std::int64_t positions = options.context;
  options.context = context.value_or(positions);
  const StoredTensors fitting = with_first_positions(tensors, positions, options.context, origin);
  auto model = std::make_unique<Gpt2>(options, Gpt2::Initialisation::zeros);
  load_hugging_face(*model, fitting, origin);
  return model;
}

void save_gpt2_folder(const std::filesystem::path& folder, const Gpt2& model) {
  prepare_model_folder(folder, {"config.json", "model.safetensors"});
  write_safetensors(folder / "model.safetensors", to_hugging_face(model.parameters()),
                    {{"format", "pt"}});
  write_file_atomically(folder / "config.json", make_gpt2_config(model.options()));
}

}  // namespace accrue::models
