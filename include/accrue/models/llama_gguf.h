#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "accrue/models/gguf.h"
#include "accrue/models/llama.h"

namespace accrue::models {

/// Returns `options` with the shape and variant in the keys of a GGUF file of architecture llama
/// (also Mistral), qwen2, qwen3, gemma2 or gemma3. Its config_json is an equivalent config.json.
/// Its context is the whole context_length, and its base, if adapters keep it as stored, has the
/// format of the file's matrices. Throws a usage Error naming the file and the key if one is
/// missing or requires something that this model does not support.
LlamaOptions read_llama_gguf_shape(const std::filesystem::path& file, LlamaOptions options);

/// Loads a GGUF file with weights in F32, F16, BF16, Q8_0, Q4_K, Q5_K or Q6_K, like
/// load_llama_folder(); weights are unpacked one at a time. Queries and keys of architecture llama,
/// which are stored for rotations of adjacent channels, are reordered to Hugging Face's order.
/// Throws the usage Errors of load_llama_folder(), and one if the file is damaged.
std::unique_ptr<Llama> load_llama_gguf(const std::filesystem::path& file, LlamaOptions options,
                                       std::optional<std::int64_t> context = {});

/// Writes a GGUF file that llama.cpp loads, atomically. Without `tokens` the file has none. If
/// layers see fewer keys than the model has positions and the architecture has no windows (Mistral,
/// Qwen), context_length is the window, within which the models are the same. Throws a usage Error
/// if GGUF cannot express the model, llama.cpp has no tokenizer that gives the same ids
/// (GgufTokens::nearest), a row is not a multiple of 32 for q8_0 or a value is too large for
/// `dtype`, and the errors of write_gguf(). No file is left then.
GgufDifferences save_llama_gguf(const std::filesystem::path& file, const Llama& model,
                                GgufDtype dtype, const std::optional<GgufTokens>& tokens = {});

/// Writes only the adapters, as llama.cpp loads them next to their base (--lora FILE): the factors
/// in fp32, and an alpha that gives the scale of training. Throws a usage Error if there are none,
/// or for DoRA, which llama.cpp does not support.
void save_llama_gguf_adapter(const std::filesystem::path& file, const Llama& model);

}  // namespace accrue::models
