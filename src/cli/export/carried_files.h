#pragma once

#include <filesystem>

namespace accrue::cli {

/// Copies a tokenizer.json and the files that belong to it, under the names that other programs
/// search for.
void copy_tokenizer(const std::filesystem::path& tokenizer_file, const std::filesystem::path& out);

/// Copies the files that other programs read instead of a tokenizer.json (tokenizer.model,
/// vocab.json) from the folder that a model came from, and `with_settings` those that belong to
/// them. Files that `from` does not have, or that `out` has already, are left out.
void carry_vocabulary(const std::filesystem::path& from, const std::filesystem::path& out,
                      bool with_settings);

}  // namespace accrue::cli
