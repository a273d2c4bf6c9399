#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "accrue/models/gguf.h"
#include "accrue/models/gpt2.h"

namespace accrue::models {

/// `options` with the shape that the keys of a GGUF file of architecture gpt2 state. Its context is
/// the whole context_length. Throws a usage Error naming the file and the key if one is missing
/// or asks for what Gpt2 is not.
Gpt2Options read_gpt2_gguf_shape(const std::filesystem::path& file, Gpt2Options options);

/// Loads a GGUF file with weights of the types that load_llama_gguf() reads, as load_gpt2_folder()
/// does a folder: each is unpacked when its turn comes. A head that is stated besides the embedding
/// has to have its values. Throws a usage Error as that does, and if the file is damaged.
std::unique_ptr<Gpt2> load_gpt2_gguf(const std::filesystem::path& file, Gpt2Options options,
                                     std::optional<std::int64_t> context = {});

/// Writes a GGUF file that llama.cpp loads, atomically, by the contract of save_llama_gguf().
GgufDifferences save_gpt2_gguf(const std::filesystem::path& file, const Gpt2& model,
                               GgufDtype dtype, const std::optional<GgufTokens>& tokens = {});

/// Writes the adapters alone, by the contract of save_llama_gguf_adapter().
void save_gpt2_gguf_adapter(const std::filesystem::path& file, const Gpt2& model);

}  // namespace accrue::models
