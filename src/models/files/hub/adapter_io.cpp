#include "accrue/models/adapter_io.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "accrue/core/error.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "kernels/blocks/block_matrix.h"
#include "models/files/config/adapter_config.h"
#include "models/files/hub/model_folder.h"
#include "models/files/tensors/named_tensors.h"
#include "models/layers/adapter_names.h"

namespace accrue::models {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "base_model.model.";
constexpr std::string_view weight_end = ".weight";
constexpr const char* config_file = "adapter_config.json";
constexpr const char* weights_file = "adapter_model.safetensors";
constexpr const char* adapter_weights = "an adapter of this base and these lora options";

/// `name` without `end`; none if it does not end with it.
std::optional<std::string> before(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return std::nullopt;
  return std::string(name.substr(0, name.size() - end.size()));
}

/// Whether `name` consists of letters, digits, dots and underscores, like names of layers.
bool is_plain(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](unsigned char sign) {
    return std::isalnum(sign) != 0 || sign == '.' || sign == '_';
  });
}

/// The tensors of an adapter's file under the names of the parameters here.
StoredTensors open_adapter(const fs::path& folder) {
  const fs::path file = folder / weights_file;
  std::error_code unreadable;
  if (!fs::exists(file, unreadable))
    throw usage_error("read " + file.string(), "an adapter's weights",
                      fs::exists(folder / "adapter_model.bin", unreadable)
                          ? "adapter_model.bin, a pickle, which this version does not read"
                          : "no such file",
                      "PEFT's save_pretrained, which writes safetensors");
  StoredTensors tensors;
  for (StoredTensor tensor : open_safetensors(file).tensors) {
    if (!tensor.name.starts_with(prefix) || !is_plain(tensor.name) ||
        !is_adapter_name(tensor.name.substr(prefix.size())))
      throw misfit_of(file.string(), tensor.name,
                      "names such as " + std::string(prefix) + "LAYER" + std::string(factor_a_end),
                      "this one", adapter_weights);
    tensor.name.erase(0, prefix.size());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

NamedParameters adapter_parameters(const LanguageModel& model) {
  NamedParameters adapters;
  for (const NamedParameter& parameter : model.parameters())
    if (is_adapter_name(parameter.name)) adapters.push_back(parameter);
  return detached(adapters);
}

/// The layers with parameters whose names end with `end`.
std::vector<std::string> layers_with(std::string_view end, const NamedParameters& parameters) {
  std::vector<std::string> layers;
  for (const NamedParameter& parameter : parameters)
    if (const auto layer = before(parameter.name, end);
        layer && !(end == weight_end && is_adapter_name(parameter.name)))
      layers.push_back(*layer);
  return layers;
}

/// Weight, factors and magnitude of one layer.
struct AdaptedWeight {
  at::Tensor weight, a, b, magnitude;
  double scale = 1;

  /// The weight that replaces all of them together, in the factors' dtype.
  at::Tensor merged() const {
    const at::NoGradGuard no_grad;
    const at::Tensor sum = at::addmm(kernels::unpacked(weight, a.scalar_type()), b, a, 1, scale);
    if (!magnitude.defined()) return sum;
    return sum * (magnitude / sum.norm(2, {1})).unsqueeze(1);
  }
};

/// The sizes of the values in `tensor`, unpacked.
std::vector<std::int64_t> plain_sizes(const at::Tensor& tensor) {
  if (!kernels::is_in_blocks(tensor)) return tensor.sizes().vec();
  const kernels::MatrixSize size = kernels::matrix_size(tensor);
  return {size.rows, size.columns};
}

StoredTensor merged_tensor(const NamedParameter& weight, const AdaptedWeight& adapted) {
  return {weight.name, adapted.a.scalar_type(), plain_sizes(weight.tensor),
          [adapted](const at::Tensor& target) { target.copy_(adapted.merged()); }};
}

/// A tensor that is converted to `dtype` when it is copied.
StoredTensor widened_tensor(const NamedParameter& parameter, at::ScalarType dtype) {
  return {parameter.name, dtype, plain_sizes(parameter.tensor),
          [dtype, values = parameter.tensor.detach()](const at::Tensor& target) {
            target.copy_(kernels::unpacked(values, dtype));
          }};
}

}  // namespace

bool is_adapter_name(std::string_view name) {
  return name.ends_with(factor_a_end) || name.ends_with(factor_b_end) ||
         name.ends_with(magnitude_end);
}

AdapterOptions read_adapter_options(const fs::path& folder) {
  const fs::path config = folder / config_file;
  std::error_code unreadable;
  if (!fs::exists(config, unreadable))
    throw usage_error(
        "load an adapter from " + folder.string(),
        std::string("a folder with ") + config_file + " and " + weights_file,
        fs::is_directory(folder, unreadable) ? "one without " + std::string(config_file)
                                             : "no such folder",
        "a folder that accrue export --format adapter or PEFT's save_pretrained made");
  AdapterOptions options = parse_adapter_config(read_file(config), config.string());
  for (const StoredTensor& tensor : open_adapter(folder))
    if (auto layer = before(tensor.name, factor_a_end))
      options.targets.push_back(std::move(*layer));
  if (options.targets.empty())
    throw usage_error("load " + (folder / weights_file).string(), "an adapter's factors", "none",
                      adapter_weights);
  return options;
}

void load_adapter_folder(const fs::path& folder, LanguageModel& model) {
  copy_by_name(adapter_parameters(model), open_adapter(folder), (folder / weights_file).string(),
               adapter_weights);
}

void save_adapter_folder(const fs::path& folder, const LanguageModel& model,
                         const std::string& base) {
  if (!model.adapters().any())
    throw usage_error("save an adapter to " + folder.string(), "a model that has adapters",
                      "one without", "lora.rank = 8 in the run's config, or --format hf");
  NamedParameters tensors = adapter_parameters(model);
  const std::string config =
      make_adapter_config(model.adapters(), base, layers_with(factor_a_end, tensors),
                          layers_with(weight_end, model.parameters()));
  for (NamedParameter& tensor : tensors) tensor.name.insert(0, prefix);
  prepare_model_folder(folder, {config_file, weights_file});
  write_safetensors(folder / weights_file, tensors, {{"format", "pt"}});
  write_file_atomically(folder / config_file, config);
}

StoredTensors merged_parameters(const LanguageModel& model) {
  const NamedParameters parameters = model.parameters();
  std::map<std::string, AdaptedWeight> adapted;
  for (const auto& [name, tensor] : parameters) {
    if (const auto layer = before(name, factor_a_end)) adapted[*layer].a = tensor.detach();
    if (const auto layer = before(name, factor_b_end)) adapted[*layer].b = tensor.detach();
    if (const auto layer = before(name, magnitude_end)) adapted[*layer].magnitude = tensor.detach();
  }
  if (adapted.empty()) return stored(detached(parameters));
  const at::ScalarType masters = adapted.begin()->second.a.scalar_type();
  StoredTensors merged;
  for (const NamedParameter& parameter : parameters) {
    if (is_adapter_name(parameter.name)) continue;
    const auto layer = before(parameter.name, weight_end);
    const auto found = layer ? adapted.find(*layer) : adapted.end();
    if (found == adapted.end()) {
      merged.push_back(widened_tensor(parameter, masters));
      continue;
    }
    AdaptedWeight& weight = found->second;
    weight.weight = parameter.tensor.detach();
    weight.scale = model.adapters().scale();
    merged.push_back(merged_tensor(parameter, weight));
  }
  return merged;
}

}  // namespace accrue::models
