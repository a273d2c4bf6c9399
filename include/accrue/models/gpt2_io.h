#pragma once

#include <filesystem>
#include <memory>

#include "accrue/models/gpt2.h"

namespace accrue::models {

/// Loads a Hugging Face GPT-2 folder: config.json (its shape replaces that of `options`; dropout,
/// compute and seed are kept) and model.safetensors, with or without the "transformer." prefix and
/// the tied "lm_head.weight". Throws a usage Error naming file and tensor where something is
/// missing, extra, misshapen, or where the config asks for what this model is not (another
/// activation, untied head, ...).
std::unique_ptr<Gpt2> load_gpt2_folder(const std::filesystem::path& folder, Gpt2Options options);

/// Writes a folder that transformers' GPT2LMHeadModel.from_pretrained loads: config.json and
/// model.safetensors. Created where it does not exist; an existing model in it is a usage Error.
void save_gpt2_folder(const std::filesystem::path& folder, const Gpt2& model);

/// Parameters in Hugging Face's layout (matrices of blocks transposed to [in, out]) and back.
NamedParameters to_hugging_face(const NamedParameters& parameters);
/// Copies tensors in Hugging Face's layout into `model`, one after the other through at most one
/// temporary of a tensor's size (two where a tied head is stated besides the embedding and must be
/// compared). `origin` names them in errors; nothing is changed where one does not fit.
void load_hugging_face(Gpt2& model, const StoredTensors& tensors, const std::string& origin);
inline void load_hugging_face(Gpt2& model, const NamedParameters& tensors,
                              const std::string& origin) {
  load_hugging_face(model, stored(tensors), origin);
}

}  // namespace accrue::models
