#include "models/files/gguf/models/gguf_adapter.h"

#include <ATen/ATen.h>

#include <array>

#include "accrue/core/error.h"
#include "accrue/models/adapter_io.h"
#include "models/files/gguf/container/gguf_writer.h"
#include "models/files/gguf/models/llama_gguf_heads.h"
#include "models/layers/adapter_names.h"

namespace accrue::models {
namespace {

struct Factor {
  std::string_view hub_end, gguf_end;
  bool has_rows_of_weight;
};
constexpr std::array<Factor, 2> adapter_factors{
    {{factor_a_end, ".lora_a", false}, {factor_b_end, ".lora_b", true}}};

/// The tensor of an adapter's factor; none if the parameter is not a factor.
std::optional<GgufOutput> factor_of(const NamedParameter& parameter,
                                    const GgufAdapterLayout& layout) {
  for (const Factor& factor : adapter_factors) {
    const std::string& name = parameter.name;
    if (!name.ends_with(factor.hub_end)) continue;
    const std::string weight = name.substr(0, name.size() - factor.hub_end.size()) + ".weight";
    const std::int64_t heads = factor.has_rows_of_weight ? layout.rotated_heads(weight) : 0;
    return GgufOutput{
        .name = gguf_name_of_hub(weight, layout.names).value() + std::string(factor.gguf_end),
        .type = GgufType::f32,
        .shape = parameter.tensor.sizes().vec(),
        .values = [values = parameter.tensor.detach(), heads] {
          return heads > 0 ? as_neighbours(values, heads) : values;
        }};
  }
  return std::nullopt;
}

void check_adapters(const AdapterOptions& adapters, const std::string& operation) {
  if (!adapters.any())
    throw usage_error(operation, "a model that has adapters", "one without",
                      "lora.rank = 8 in the run's config, or leaving --adapter out");
  if (adapters.kind != AdapterKind::lora)
    throw usage_error(operation, "adapters of kind lora, which llama.cpp adds to its weights",
                      std::string(to_string(adapters.kind)),
                      "leaving --adapter out: they are merged into the model");
}

}  // namespace

void write_gguf_adapter(const std::filesystem::path& file, const LanguageModel& model,
                        const GgufAdapterLayout& layout) {
  const AdapterOptions& adapters = model.adapters();
  check_adapters(adapters, "write " + file.string());
  GgufKeyWriter keys;
  keys.add("general.architecture", std::string(layout.architecture));
  keys.add("general.type", std::string("adapter"));
  keys.add("adapter.type", std::string("lora"));
  // It is divided by the rank, whichever scale the factors had in training.
  keys.add("adapter.lora.alpha",
           static_cast<float>(adapters.scale() * static_cast<double>(adapters.rank)));
  std::vector<GgufOutput> tensors;
  for (const NamedParameter& parameter : model.parameters())
    if (auto factor = factor_of(parameter, layout)) tensors.push_back(std::move(*factor));
  write_gguf(file, keys, tensors);
}

}  // namespace accrue::models
