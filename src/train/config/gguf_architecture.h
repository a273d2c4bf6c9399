#pragma once

#include <filesystem>
#include <string>

namespace accrue::train {

/// "general.architecture" of a GGUF file; empty if it has no such key, or is damaged: who loads
/// the file says how. Reads what stands before that key, which is the first as a rule.
std::string gguf_architecture(const std::filesystem::path& file);

}  // namespace accrue::train
