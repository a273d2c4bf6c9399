#pragma once

#include <cstdint>
#include <filesystem>

namespace accrue::cli {

/// Writes tokenizer.json and tokenizer_config.json, with which transformers' AutoTokenizer encodes
/// text as this program does: token i is byte i. It is GPT-2's byte-level BPE without any merge.
void write_byte_tokenizer(const std::filesystem::path& folder, std::int64_t context);

}  // namespace accrue::cli
