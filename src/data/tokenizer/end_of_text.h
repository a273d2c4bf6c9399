#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace accrue::data {

/// The token that ends a text, as a file beside a tokenizer.json names it.
struct EndOfText {
  std::string text;
  std::filesystem::path stated_in;
};

/// What "eos_token" of the tokenizer_config.json beside `tokenizer_file` names; none where there is
/// no such file or key, or it is null. Throws a usage Error, its operation beginning with `what`,
/// where it cannot be read or is no token's text.
std::optional<EndOfText> end_of_text_beside(const std::filesystem::path& tokenizer_file,
                                            const std::string& what);

}  // namespace accrue::data
