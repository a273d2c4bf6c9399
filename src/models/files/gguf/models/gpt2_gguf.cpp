#include "accrue/models/gpt2_gguf.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "accrue/models/adapter_io.h"
#include "accrue/models/gpt2_io.h"
#include "models/files/config/gpt2_config.h"
#include "models/files/gguf/container/gguf_dtypes.h"
#include "models/files/gguf/container/gguf_file.h"
#include "models/files/gguf/container/gguf_sizes.h"
#include "models/files/gguf/models/gguf_adapter.h"
#include "models/files/gguf/models/gguf_names.h"
#include "models/files/gguf/models/gpt2_gguf_config.h"
#include "models/files/gguf/tokenizer/gguf_tokenizer_keys.h"

namespace accrue::models {
namespace {

constexpr const char* fitting_gpt2_file = "the GGUF file of a GPT-2";
constexpr std::string_view table_of_positions = "position_embd.weight";

/// Throws before more is allocated than the file would fill.
void check_gpt2_sizes(const GgufFile& file, const Gpt2Options& options) {
  const GgufSizes sizes(file, fitting_gpt2_file);
  const std::int64_t width = options.width, ffn_width = options.inner_width();
  sizes.expect_matrix("token_embd.weight", options.vocab, width);
  sizes.expect_matrix(std::string(table_of_positions), options.context, width);
  sizes.expect_matrix("blk.0.attn_qkv.weight", 3 * width, width);
  sizes.expect_matrix("blk.0.ffn_up.weight", ffn_width, width);
  const auto w = static_cast<double>(width), f = static_cast<double>(ffn_width);
  sizes.expect_room_for(options.layers,
                        static_cast<double>(options.layers) * (4 * w * w + 2 * w * f + 9 * w + f) +
                            static_cast<double>(options.vocab + options.context + 2) * w);
}

/// A file's tensors under Hugging Face's names, and in its layout: llama.cpp's matrices are those
/// of products, [out, in], like Gpt2's own.
StoredTensors gpt2_tensors_of(const GgufFile& file) {
  StoredTensors tensors;
  for (const GgufTensor& tensor : file.tensors()) {
    const auto name = hub_name_of_gguf(tensor.name, GgufNames::gpt2);
    const bool is_matrix = name && name->ends_with(".weight") && name->find(".ln_") == name->npos;
    if (!name || tensor.shape.size() != (is_matrix ? 2U : 1U))
      throw usage_error("load " + file.name() + ", tensor " + quoted_gguf_text(tensor.name),
                        "only the tensors of this model, matrices as its weights",
                        name ? std::to_string(tensor.shape.size()) + " dimensions" : "one more",
                        fitting_gpt2_file);
    StoredTensor stored = file.stored(tensor);
    stored.name = *name;
    tensors.push_back(std::move(stored));
  }
  return to_hugging_face(std::move(tensors));
}

Gpt2Options gpt2_shape_of(const GgufFile& file, Gpt2Options options) {
  return parse_gpt2_config(gpt2_config_of_gguf(file), file.name(), std::move(options));
}

GgufOutput gpt2_output_of(const StoredTensor& stored, GgufDtype dtype) {
  std::string name = gguf_name_of_hub(stored.name, GgufNames::gpt2).value();
  // llama.cpp adds positions to the embeddings in the stored precision.
  const bool is_whole = stored.shape.size() == 1 || name == table_of_positions;
  return {.name = std::move(name),
          .type = is_whole ? GgufType::f32 : gguf_type_of(dtype),
          .shape = stored.shape,
          .values = [stored] { return stored.read().to(at::kFloat); }};
}

}  // namespace

Gpt2Options read_gpt2_gguf_shape(const std::filesystem::path& file, Gpt2Options options) {
  return gpt2_shape_of(GgufFile(file), std::move(options));
}

std::unique_ptr<Gpt2> load_gpt2_gguf(const std::filesystem::path& path, Gpt2Options options,
                                     std::optional<std::int64_t> context) {
  const GgufFile file(path);
  options = gpt2_shape_of(file, std::move(options));
  check_gpt2_sizes(file, options);
  const std::int64_t positions = options.context;
  options.context = context.value_or(positions);
  const StoredTensors tensors =
      with_first_positions(gpt2_tensors_of(file), positions, options.context, file.name());
  auto model = std::make_unique<Gpt2>(options, Initialisation::zeros);
  load_hugging_face(*model, tensors, file.name());
  return model;
}

GgufDifferences save_gpt2_gguf(const std::filesystem::path& file, const Gpt2& model,
                               GgufDtype dtype, const std::optional<GgufTokens>& tokens) {
  GgufKeyWriter keys;
  add_general_keys(gguf_gpt2, dtype, keys);
  add_gpt2_keys(model.options(), keys);
  GgufDifferences differences =
      add_tokenizer_keys(tokens, model.vocab(), "write " + file.string(), keys);
  std::vector<GgufOutput> tensors;
  for (const StoredTensor& tensor : merged_parameters(model))
    tensors.push_back(gpt2_output_of(tensor, dtype));
  write_gguf(file, keys, tensors);
  return differences;
}

void save_gpt2_gguf_adapter(const std::filesystem::path& file, const Gpt2& model) {
  write_gguf_adapter(file, model,
                     {.architecture = gguf_gpt2,
                      .names = GgufNames::gpt2,
                      .rotated_heads = [](std::string_view) { return std::int64_t{0}; }});
}

}  // namespace accrue::models
