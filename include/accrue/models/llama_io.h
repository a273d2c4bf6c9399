#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/models/llama.h"

namespace accrue::models {

/// Returns `options` with the shape and variant in a Hugging Face folder's config.json, of
/// model_type llama, mistral, ministral, qwen2, qwen3, gemma, gemma2 or gemma3_text; missing keys
/// have the defaults of transformers' class for the type. If the head's weights in the folder
/// differ from the embedding, it is not tied, whatever config.json states. The context is all of
/// max_position_embeddings. Throws a usage Error naming file and key if this model does not support
/// a value (another activation, unknown rope_scaling, quantised weights, ...).
LlamaOptions read_llama_shape(const std::filesystem::path& folder, LlamaOptions options);

/// Loads such a folder: config.json (its shape and variant replace those of `options`; dropout,
/// loss, compute and seed are kept) and model.safetensors, or its shards if there is only
/// model.safetensors.index.json, with or without the prefix "model."; a tied head may be stored in
/// addition to the embedding, or instead of it. Weights of any floating-point dtype are converted
/// to the masters' dtype. With `context` the model is made for samples of that many tokens. Tensors
/// that the model does not have are left out (tensors_left_out). Throws a usage Error naming file
/// and tensor if something is missing or misshapen, or `context` exceeds that in config.json, and
/// the errors of read_llama_shape().
std::unique_ptr<Llama> load_llama_folder(const std::filesystem::path& folder, LlamaOptions options,
                                         std::optional<std::int64_t> context = {});

/// The names of the tensors in such a folder that the model loaded from it does not have.
std::vector<std::string> tensors_left_out(const std::filesystem::path& folder, const Llama& model);

/// Whether the model loaded from such a folder has a separate head although config.json ties it,
/// because its weights differ from the embedding.
bool has_untied_head(const std::filesystem::path& folder, const Llama& model);

/// Writes a folder that transformers loads: config.json and model.safetensors, with adapters merged
/// into their weights. The folder is created if it does not exist. config.json is
/// LlamaOptions::config_json with the dtype of the file; without one it has model_type llama.
/// Throws a usage Error if the folder already contains a model, or if such a config.json cannot
/// express the model's options.
void save_llama_folder(const std::filesystem::path& folder, const Llama& model);

/// Copies tensors named as in such a folder into `model`, one after the other, through at most one
/// temporary of a tensor's size (two to compare a separate tied head with the embedding). `origin`
/// names them in errors; nothing is changed if one does not fit. For a model with adapters,
/// `tensors` may be all tensors, or only the base's; the adapters are then reset.
void load_llama_tensors(Llama& model, const StoredTensors& tensors, const std::string& origin);

}  // namespace accrue::models
