#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace accrue::data {

/// The object that a JSON file beside a tokenizer.json holds, in its order; null when there is no
/// such file. Throws a usage Error, its operation beginning with `what`, when it holds no object,
/// or one of more members than a tokenizer has.
nlohmann::ordered_json read_settings_file(const std::filesystem::path& file,
                                          const std::string& what);

/// The same of a file of the model, whose order does not count.
nlohmann::json read_config_file(const std::filesystem::path& file, const std::string& what);

/// What the tokenizer_config.json beside a tokenizer.json states; an empty object if there is no
/// such file. Throws a usage Error, its operation beginning with `what`, where it is no JSON
/// object.
nlohmann::ordered_json read_tokenizer_settings(const std::filesystem::path& tokenizer_file,
                                               const std::string& what);

/// A stated text, or that of a token which is stated with its properties; none if it is neither.
std::optional<std::string> text_of_token(const nlohmann::ordered_json& stated);

}  // namespace accrue::data
