#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace accrue::models {

/// The ids that "eos_token_id" of a generation_config.json (or a config.json) states: one, several
/// or, where it is null or absent, none. Throws a usage Error that names `file` where they are no
/// token ids.
std::vector<std::int64_t> parse_end_tokens(const std::string& text, const std::string& file);

/// The tokens that end a text of the model in a Hugging Face folder, as its generation_config.json
/// says, or config.json where there is none.
std::vector<std::int64_t> read_end_tokens(const std::filesystem::path& folder);

}  // namespace accrue::models
