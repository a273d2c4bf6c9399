#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/models/llama.h"

namespace accrue::models {

/// `options` with the shape and variant that a Hugging Face folder's config.json states, of
/// model_type llama, mistral, ministral, qwen2, qwen3, gemma, gemma2 or gemma3_text; what it leaves
/// out is as in transformers' class of the type. If the folder's weights have another head than
/// the embedding, it is not tied, whatever config.json says. Its context is the whole
/// max_position_embeddings. Throws a usage Error naming the file and the key if it asks for what
/// this model is not (another activation, an unknown rope_scaling, quantised weights, ...).
LlamaOptions read_llama_shape(const std::filesystem::path& folder, LlamaOptions options);

/// Loads such a folder: config.json (its shape and variant replace those of `options`; dropout,
/// loss, compute and seed are kept) and model.safetensors, or its shards if there is only
/// model.safetensors.index.json, with or without the "model." prefix; a tied head may be stated
/// besides the embedding, or in its place. Weights of any floating-point dtype are converted to the
/// masters'. With `context` the model is made for samples of that many tokens. Tensors that are
/// none of the model's are left out (tensors_left_out). Throws a usage Error naming file and tensor
/// if something is missing or misshapen, or `context` is beyond what config.json has; and as
/// read_llama_shape().
std::unique_ptr<Llama> load_llama_folder(const std::filesystem::path& folder, LlamaOptions options,
                                         std::optional<std::int64_t> context = {});

/// The names of the tensors in such a folder that are none of the model's that was loaded from it.
std::vector<std::string> tensors_left_out(const std::filesystem::path& folder, const Llama& model);

/// Whether the model that was loaded from such a folder has a head of its own though config.json
/// ties it: the weights have another one than the embedding.
bool has_untied_head(const std::filesystem::path& folder, const Llama& model);

/// Writes a folder that transformers loads: config.json and model.safetensors, with adapters merged
/// into their weights. The folder is
/// created if it does not exist; a model that is in it already is a usage Error. config.json is
/// that of LlamaOptions::config_json with the dtype of what is written; if there is none it is
/// of model_type llama, and a model whose options that cannot state is a usage Error.
void save_llama_folder(const std::filesystem::path& folder, const Llama& model);

/// Copies tensors named as in such a folder into `model`, one after the other through at most one
/// temporary of a tensor's size (two if a tied head is stated besides the embedding and must be
/// compared). `origin` names them in errors; nothing is changed where one does not fit. Of a model
/// with adapters they may be all tensors, or the base's alone, and the adapters start anew.
void load_llama_tensors(Llama& model, const StoredTensors& tensors, const std::string& origin);

}  // namespace accrue::models
