#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "accrue/models/gguf.h"
#include "accrue/models/gpt2.h"

namespace accrue::models {

/// Returns `options` with the shape in the keys of a GGUF file of architecture gpt2. Its context is
/// the whole context_length. Throws a usage Error naming the file and the key if one is missing or
/// requires something that Gpt2 does not support.
Gpt2Options read_gpt2_gguf_shape(const std::filesystem::path& file, Gpt2Options options);

/// Loads a GGUF file with weights of the types that load_llama_gguf() reads, like
/// load_gpt2_folder(); weights are unpacked one at a time. A separate head must equal the
/// embedding. Throws the usage Errors of load_gpt2_folder(), and one if the file is damaged.
std::unique_ptr<Gpt2> load_gpt2_gguf(const std::filesystem::path& file, Gpt2Options options,
                                     std::optional<std::int64_t> context = {});

/// Writes a GGUF file that llama.cpp loads, atomically. Like save_llama_gguf().
GgufDifferences save_gpt2_gguf(const std::filesystem::path& file, const Gpt2& model,
                               GgufDtype dtype, const std::optional<GgufTokens>& tokens = {});

/// Writes only the adapters. Like save_llama_gguf_adapter().
void save_gpt2_gguf_adapter(const std::filesystem::path& file, const Gpt2& model);

}  // namespace accrue::models
