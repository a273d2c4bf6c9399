#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace accrue::data {

/// The object in a JSON file next to a tokenizer.json, in its order; null if there is no such file.
/// Throws a usage Error of an operation that begins with `what` if it is not an object, or has more
/// members than any tokenizer.
nlohmann::ordered_json read_settings_file(const std::filesystem::path& file,
                                          const std::string& what);

/// The same for a file of the model, whose order does not matter.
nlohmann::json read_config_file(const std::filesystem::path& file, const std::string& what);

/// The contents of the tokenizer_config.json next to a tokenizer.json; an empty object if there is
/// no such file. Throws a usage Error of an operation that begins with `what` if it is not a JSON
/// object.
nlohmann::ordered_json read_tokenizer_settings(const std::filesystem::path& tokenizer_file,
                                               const std::string& what);

/// A stated text, or that of a token that is stated with its properties; none if it is neither.
std::optional<std::string> text_of_token(const nlohmann::ordered_json& stated);

}  // namespace accrue::data
