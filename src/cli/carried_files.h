#pragma once

#include <filesystem>

namespace accrue::cli {

/// Copies a tokenizer.json and the files that belong to it, under the names by which others look
/// for them.
void copy_tokenizer(const std::filesystem::path& tokenizer_file, const std::filesystem::path& out);

/// Copies what other programs read in the place of a tokenizer.json (tokenizer.model, vocab.json)
/// from the folder that a model came from, and `with_settings` what belongs to it. What `from` does
/// not have is left out, and so is what `out` has already.
void carry_vocabulary(const std::filesystem::path& from, const std::filesystem::path& out,
                      bool with_settings);

}  // namespace accrue::cli
