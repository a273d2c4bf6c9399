#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace accrue::data::testing {

/// A tokenizer.json of bytes that cuts words like GPT-2, with merges over letters, spaces and line
/// feeds: small, and different from bytes in every text.
nlohmann::json planted_gpt2();
/// One whose text is a single word (Gemma), so that a merge may cross the end of a line.
nlohmann::json planted_one_word();
/// One that puts a space before every text (Llama 2).
nlohmann::json planted_with_prefix();
/// planted_gpt2() with `id` for one more token, "<last>".
nlohmann::json planted_with_id(std::int64_t id);

}  // namespace accrue::data::testing
