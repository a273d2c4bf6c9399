#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/models/gpt2.h"

namespace accrue::models {

/// Returns `options` with the shape in the config.json of a Hugging Face GPT-2 folder; missing keys
/// have the defaults of transformers' GPT2Config. Throws a usage Error naming file and key if this
/// model does not support a value (another activation, untied head, ...).
Gpt2Options read_gpt2_shape(const std::filesystem::path& folder, Gpt2Options options);

/// Loads a Hugging Face GPT-2 folder: config.json (its shape replaces that of `options`; dropout,
/// compute and seed are kept) and model.safetensors, or its shards if there is only
/// model.safetensors.index.json, with or without the prefix "transformer."; the tied
/// "lm_head.weight" may be stored in addition to the embedding, or instead of it. With `context`
/// the model has only that many positions (with_first_positions). Tensors that the model does not
/// have are left out (tensors_left_out). Throws a usage Error naming file and tensor if something
/// is missing or misshapen, or there are fewer positions than `context`, and the errors of
/// read_gpt2_shape().
std::unique_ptr<Gpt2> load_gpt2_folder(const std::filesystem::path& folder, Gpt2Options options,
                                       std::optional<std::int64_t> context = {});

/// The names of the tensors in such a folder that the model loaded from it does not have.
std::vector<std::string> tensors_left_out(const std::filesystem::path& folder, const Gpt2& model);

/// Reduces `tensors` of a GPT-2 with `positions` positions to the first `context` positions: the
/// position embedding, which is first read as a whole, keeps only those rows. Throws a usage Error
/// naming `origin` if there are fewer positions.
StoredTensors with_first_positions(StoredTensors tensors, std::int64_t positions,
                                   std::int64_t context, const std::string& origin);

/// Writes a folder that transformers' GPT2LMHeadModel.from_pretrained loads: config.json and
/// model.safetensors, with adapters merged into their weights. The folder is created if it does not
/// exist. Throws a usage Error if it already contains a model.
void save_gpt2_folder(const std::filesystem::path& folder, const Gpt2& model);

/// Converts parameters to Hugging Face's layout (matrices of blocks transposed to [in, out]).
NamedParameters to_hugging_face(const NamedParameters& parameters);
StoredTensors to_hugging_face(StoredTensors parameters);
/// Copies tensors in Hugging Face's layout into `model`, one after the other, through at most one
/// temporary of a tensor's size (two to compare a separate tied head with the embedding). `origin`
/// names them in errors; nothing is changed if one does not fit. For a model with adapters,
/// `tensors` may be all tensors, or only the base's; the adapters are then reset.
void load_hugging_face(Gpt2& model, const StoredTensors& tensors, const std::string& origin);
inline void load_hugging_face(Gpt2& model, const NamedParameters& tensors,
                              const std::string& origin) {
  load_hugging_face(model, stored(tensors), origin);
}

}  // namespace accrue::models
