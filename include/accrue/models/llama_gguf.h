#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "accrue/models/gguf.h"
#include "accrue/models/llama.h"

namespace accrue::models {

/// `options` with the shape and variant that the keys of a GGUF file state, of architecture llama
/// (which Mistral has, too), qwen2, qwen3, gemma2 or gemma3. Its config_json is a config.json that
/// says the same. Its context is the whole context_length, and its base, where adapters keep it as
/// stored, the format that the file's matrices have. Throws a usage Error naming the file and
/// the key where one is missing or asks for what this model is not.
LlamaOptions read_llama_gguf_shape(const std::filesystem::path& file, LlamaOptions options);

/// Loads a GGUF file with weights in F32, F16, BF16, Q8_0, Q4_K, Q5_K or Q6_K, as
/// load_llama_folder() does a folder: each is unpacked when its turn comes. Queries and keys of
/// architecture llama, which are stored for rotations of neighbouring channels, are put back into
/// Hugging Face's order. Throws a usage Error as that does, and where the file is damaged.
std::unique_ptr<Llama> load_llama_gguf(const std::filesystem::path& file, LlamaOptions options,
                                       std::optional<std::int64_t> context = {});

/// Writes a GGUF file that llama.cpp loads, atomically. Without `tokens` the file has none. If
/// layers see fewer keys than the model has positions and the architecture has no windows (Mistral,
/// Qwen), context_length is the window, within which the models are the same. Throws a usage Error
/// if GGUF cannot state the model or llama.cpp has no tokenizer that makes the same ids
/// (GgufTokens::nearest), a row is no multiple of 32 for q8_0 or a value is too large for `dtype`;
/// and as write_gguf() does. Nothing is there then.
GgufDifferences save_llama_gguf(const std::filesystem::path& file, const Llama& model,
                                GgufDtype dtype, const std::optional<GgufTokens>& tokens = {});

/// Writes the adapters alone as llama.cpp takes them beside their base (--lora FILE): the factors
/// in fp32, and an alpha with which it scales as they were trained. Throws a usage Error if
/// there are none, or of DoRA, which llama.cpp does not know.
void save_llama_gguf_adapter(const std::filesystem::path& file, const Llama& model);

}  // namespace accrue::models
