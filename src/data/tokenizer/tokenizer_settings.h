#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace accrue::data {

/// What the tokenizer_config.json beside a tokenizer.json states; an empty object where there is no
/// such file. Throws a usage Error, its operation beginning with `what`, where it is no JSON
/// object.
nlohmann::ordered_json read_tokenizer_settings(const std::filesystem::path& tokenizer_file,
                                               const std::string& what);

/// A stated text, or that of a token which is stated with its properties; none where it is neither.
std::optional<std::string> text_of_token(const nlohmann::ordered_json& stated);

}  // namespace accrue::data
