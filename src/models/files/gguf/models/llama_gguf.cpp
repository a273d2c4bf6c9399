#include "accrue/models/llama_gguf.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/models/adapter_io.h"
#include "accrue/models/llama_io.h"
#include "models/files/config/llama_config.h"
#include "models/files/gguf/container/gguf_dtypes.h"
#include "models/files/gguf/container/gguf_file.h"
#include "models/files/gguf/container/gguf_sizes.h"
#include "models/files/gguf/models/gguf_adapter.h"
#include "models/files/gguf/models/gguf_names.h"
#include "models/files/gguf/models/llama_gguf_config.h"
#include "models/files/gguf/models/llama_gguf_heads.h"
#include "models/files/gguf/models/llama_gguf_statement.h"
#include "models/files/gguf/tokenizer/gguf_tokenizer_keys.h"
#include "models/files/hub/model_folder.h"
#include "models/layers/parameter_builder.h"

namespace accrue::models {
namespace {

constexpr const char* fitting_file = "the GGUF file of a model that this version knows";

GgufNames names_of(const LlamaOptions& options) {
  return gguf_names_of_llama(options.variant.post_norms);
}

bool is_norm(std::string_view hub_name) { return hub_name.ends_with("norm.weight"); }

bool is_linear_layer(std::string_view hub_name, const GgufTensor& tensor) {
  return hub_name.starts_with("model.layers.") && tensor.shape.size() == 2;
}

/// The format in which a base is created whose matrices then take their formats in the file: the
/// smaller blocks that divide its rows. It is not in blocks if the file's first layer has none.
BaseFormat stored_base(const GgufFile& file, const LlamaOptions& options) {
  const GgufTensor* first = file.find("blk.0.attn_q.weight");
  if (first == nullptr || !traits_of(first->type).blocks) return BaseFormat::as_stored;
  constexpr std::int64_t elements = kernels::size_of(kernels::BlockFormat::q4_k).elements;
  const std::int64_t of_heads = options.heads * options.head_width;
  const bool divides = options.width % elements == 0 && of_heads % elements == 0 &&
                       options.ffn_width % elements == 0;
  return divides ? BaseFormat::q4_k : BaseFormat::q8_0;
}

/// The Hugging Face form of a file's tensors.
class HubTensors {
 public:
  /// With `keeps_all` all blocks of linear layers stay, without it only those of the base's format.
  HubTensors(const GgufFile& file, const LlamaOptions& options, bool keeps_all)
      : file_(file),
        options_(options),
        keeps_all_(keeps_all),
        permutes_(std::ranges::any_of(gguf_architectures, [&](const GgufArchitecture& known) {
          return known.rotates_neighbours && known.name == file.text("general.architecture");
        })) {}

  StoredTensors all() const {
    StoredTensors tensors;
    for (const GgufTensor& tensor : file_.tensors())
      if (tensor.name != gguf_rotary_factors) tensors.push_back(as_hub(tensor));
    return tensors;
  }

 private:
  StoredTensor as_hub(const GgufTensor& tensor) const {
    const auto name = hub_name_of_gguf(tensor.name, names_of(options_));
    if (!name)
      throw usage_error("load " + file_.name() + ", tensor " + quoted_gguf_text(tensor.name),
                        "only the tensors of this model", "one more", fitting_file);
    StoredTensor stored =
        keeps_blocks(tensor, *name) ? file_.stored_blocks(tensor) : file_.stored(tensor);
    stored.name = *name;
    if (permutes_) stored = in_halves(std::move(stored));
    if (options_.variant.offset_norms && is_norm(*name)) stored = without_offset(std::move(stored));
    return stored;
  }

  /// Whether the model keeps the blocks in which it is stored.
  bool keeps_blocks(const GgufTensor& tensor, std::string_view hub_name) const {
    const auto format = traits_of(tensor.type).blocks;
    if (!format || !options_.adapters.any() || !is_linear_layer(hub_name, tensor)) return false;
    return keeps_all_ || format == block_format_of(options_.base);
  }

  StoredTensor in_halves(StoredTensor stored) const {
    const std::int64_t heads = rotated_heads(stored.name, options_);
    if (heads == 0 || stored.shape.empty() || stored.shape[0] != heads * options_.head_width)
      return stored;  // another shape is refused when it is loaded
    const auto copy_to = [given = stored, heads](const at::Tensor& target) {
      target.copy_(as_halves(given.read(), heads));
    };
    stored.copy_to = copy_to;
    return stored;
  }

  /// GGUF stores the factors of norms, and Gemma's files what is added to 1.
  StoredTensor without_offset(StoredTensor stored) const {
    const auto copy_to = [given = stored](const at::Tensor& target) {
      target.copy_(given.read().to(at::kDouble) - 1);
    };
    stored.copy_to = copy_to;
    return stored;
  }

  const GgufFile& file_;
  const LlamaOptions& options_;
  bool keeps_all_;
  bool permutes_;
};

/// Throws before more is allocated than the file would fill.
void check_sizes(const GgufFile& file, const LlamaOptions& options) {
  const GgufSizes sizes(file, fitting_file);
  sizes.expect_matrix("token_embd.weight", options.vocab, options.width);
  sizes.expect_matrix("blk.0.attn_q.weight", options.heads * options.head_width, options.width);
  sizes.expect_matrix("blk.0.attn_k.weight", options.kv_heads * options.head_width, options.width);
  sizes.expect_matrix("blk.0.ffn_gate.weight", options.ffn_width, options.width);
  sizes.expect_room_for(options.layers, parameter_count(options));
}

LlamaOptions shape_of(const GgufFile& file, LlamaOptions options) {
  return parse_llama_config(config_of_gguf(file), file.name(), std::move(options));
}

bool keeps_blocks(const LlamaOptions& options) {
  return options.base == BaseFormat::as_stored && options.adapters.any();
}

GgufOutput output_of(const StoredTensor& stored, const LlamaOptions& options, bool permutes,
                     GgufDtype dtype) {
  const std::int64_t heads = permutes ? rotated_heads(stored.name, options) : 0;
  const double offset = options.variant.offset_norms && is_norm(stored.name) ? 1 : 0;
  return {.name = gguf_name_of_hub(stored.name, names_of(options)).value(),
          .type = stored.shape.size() == 1 ? GgufType::f32 : gguf_type_of(dtype),
          .shape = stored.shape,
          .values = [stored, heads, offset] {
            const at::Tensor values = stored.read().to(at::kFloat);
            if (heads > 0) return as_neighbours(values, heads);
            return offset == 0 ? values : values + offset;
          }};
}

}  // namespace

LlamaOptions read_llama_gguf_shape(const std::filesystem::path& path, LlamaOptions options) {
  const GgufFile file(path);
  options = shape_of(file, std::move(options));
  if (keeps_blocks(options)) options.base = stored_base(file, options);
  return options;
}

std::unique_ptr<Llama> load_llama_gguf(const std::filesystem::path& path, LlamaOptions options,
                                       std::optional<std::int64_t> context) {
  const GgufFile file(path);
  options = shape_of(file, std::move(options));
  check_sizes(file, options);
  if (context) {
    check_context(*context, options.context, file.name());
    options.context = *context;
  }
  const bool as_stored = keeps_blocks(options);
  if (as_stored) options.base = stored_base(file, options);
  auto model = std::make_unique<Llama>(options, Initialisation::zeros);
  load_llama_tensors(*model, HubTensors(file, model->options(), as_stored).all(), file.name());
  return model;
}

GgufDifferences save_llama_gguf(const std::filesystem::path& file, const Llama& model,
                                GgufDtype dtype, const std::optional<GgufTokens>& tokens) {
  const std::string operation = "write " + file.string();
  const LlamaOptions& options = model.options();
  GgufStatement statement = state_in_gguf(options, dtype, operation);
  GgufDifferences differences =
      add_tokenizer_keys(tokens, options.vocab, operation, statement.keys);
  std::vector<GgufOutput> tensors;
  if (const std::vector<float>& factors = statement.rotary_factors; !factors.empty())
    tensors.push_back({.name = std::string(gguf_rotary_factors),
                       .type = GgufType::f32,
                       .shape = {std::ssize(factors)},
                       .values = [&] { return at::tensor(factors); }});
  for (const StoredTensor& tensor : merged_parameters(model))
    tensors.push_back(output_of(tensor, options, statement.architecture.rotates_neighbours, dtype));
  write_gguf(file, statement.keys, tensors);
  return differences;
}

void save_llama_gguf_adapter(const std::filesystem::path& file, const Llama& model) {
  const LlamaOptions& options = model.options();
  const GgufArchitecture& architecture = gguf_architecture_of(options, "write " + file.string());
  write_gguf_adapter(file, model,
                     {.architecture = architecture.name,
                      .names = names_of(options),
                      .rotated_heads = [&](std::string_view weight) {
                        return architecture.rotates_neighbours ? rotated_heads(weight, options) : 0;
                      }});
}

}  // namespace accrue::models
