#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accrue/data/tokenizer.h"

namespace accrue::train {

/// The tokenizer inside a GGUF file; null if it has no tokens. Its files (tokenizer.json,
/// tokenizer_config.json, chat_template.jinja, additional_chat_templates/) lie in a temporary
/// folder with the same lifetime. Throws a usage Error as read_gguf_tokenizer() and
/// Tokenizer::open() do, a runtime Error if there is no place for temporary files.
std::shared_ptr<const data::Tokenizer> open_gguf_tokenizer(const std::filesystem::path& file,
                                                           const std::string& what);

}  // namespace accrue::train
