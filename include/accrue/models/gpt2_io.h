#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/models/gpt2.h"

namespace accrue::models {

/// `options` with the shape that a Hugging Face GPT-2 folder's config.json states; what it leaves
/// out is as in transformers' GPT2Config. Throws a usage Error naming the file and the key if it
/// asks for what this model is not (another activation, untied head, ...).
Gpt2Options read_gpt2_shape(const std::filesystem::path& folder, Gpt2Options options);

/// Loads a Hugging Face GPT-2 folder: config.json (its shape replaces that of `options`; dropout,
/// compute and seed are kept) and model.safetensors, or its shards if there is only
/// model.safetensors.index.json, with or without the "transformer." prefix; the tied
/// "lm_head.weight" may be stated besides the embedding, or in its place. With `context` the model
/// is made for that many positions only (with_first_positions). Tensors that are none of the
/// model's are left out (tensors_left_out). Throws a usage Error naming file and tensor if
/// something is missing or misshapen, or there are fewer positions than `context`; and as
/// read_gpt2_shape().
std::unique_ptr<Gpt2> load_gpt2_folder(const std::filesystem::path& folder, Gpt2Options options,
                                       std::optional<std::int64_t> context = {});

/// The names of the tensors in such a folder that are none of the model's that was loaded from it.
std::vector<std::string> tensors_left_out(const std::filesystem::path& folder, const Gpt2& model);

/// `tensors` of a GPT-2 with `positions` positions, as a GPT-2 with only the first `context` of
/// them has them: the position embedding, which is read as a whole first, keeps those rows. Nothing
/// else changes. Throws a usage Error naming `origin` if there are fewer positions.
StoredTensors with_first_positions(StoredTensors tensors, std::int64_t positions,
                                   std::int64_t context, const std::string& origin);

/// Writes a folder that transformers' GPT2LMHeadModel.from_pretrained loads: config.json and
/// model.safetensors, with adapters merged into their weights. The folder is created if it does
/// not exist; a model that is in it already is a usage Error.
void save_gpt2_folder(const std::filesystem::path& folder, const Gpt2& model);

/// Parameters in Hugging Face's layout (matrices of blocks transposed to [in, out]) and back.
NamedParameters to_hugging_face(const NamedParameters& parameters);
StoredTensors to_hugging_face(StoredTensors parameters);
/// Copies tensors in Hugging Face's layout into `model`, one after the other through at most one
/// temporary of a tensor's size (two if a tied head is stated besides the embedding and must be
/// compared). `origin` names them in errors; nothing is changed where one does not fit. Of a model
/// with adapters they may be all tensors, or the base's alone, and the adapters start anew.
void load_hugging_face(Gpt2& model, const StoredTensors& tensors, const std::string& origin);
inline void load_hugging_face(Gpt2& model, const NamedParameters& tensors,
                              const std::string& origin) {
  load_hugging_face(model, stored(tensors), origin);
}

}  // namespace accrue::models
