#pragma once

#include <filesystem>
#include <string>

namespace accrue::train {

/// "general.architecture" of a GGUF file; empty if the key is missing or the file is damaged:
/// loading the file reports that. Reads the keys up to this one, which is usually the first.
std::string gguf_architecture(const std::filesystem::path& file);

}  // namespace accrue::train
