#pragma once

#include <filesystem>

namespace accrue::cli {

/// Copies what belongs to a language model beside its weights from the folder that it came from
/// into the one that it is exported to: generation_config.json and, `with_tokenizer`, the
/// tokenizer's files. What `from` does not have is left out, and so is what `out` has already.
void carry_files(const std::filesystem::path& from, const std::filesystem::path& out,
                 bool with_tokenizer);

}  // namespace accrue::cli
