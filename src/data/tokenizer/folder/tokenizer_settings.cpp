#include "data/tokenizer/folder/tokenizer_settings.h"

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/json_extent.h"
#include "data/tokenizer/folder/tokenizer_files.h"

namespace accrue::data {
namespace {

/// An ordered object takes time quadratic in its members: this many take half a second. The largest
/// vocabularies have some 6,000 added tokens, each a member.
constexpr std::size_t kMostMembers = 20'000;

template <class Object>
Object read_object(const std::filesystem::path& file, std::optional<std::size_t> most_members,
                   const std::string& what) {
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable)) return nullptr;
  const std::string content = read_file(file), operation = what + ": " + file.string(),
                    suggestion = "the " + file.filename().string() + " that the model came with";
  if (const JsonExtent extent = extent_of_json(content);
      extent.depth > kDeepestJson || (most_members && extent.members > *most_members)) {
    const std::string members =
        most_members ? std::to_string(*most_members) + " members of an object, and " : "";
    throw usage_error(
        operation,
        "at most " + members + std::to_string(kDeepestJson) + " objects within each other", "more",
        suggestion);
  }
  auto object = Object::parse(content, nullptr, /*exceptions=*/false);
  if (object.is_object()) return object;
  throw usage_error(operation, "a JSON object", "something else or broken JSON", suggestion);
}

}  // namespace

nlohmann::ordered_json read_settings_file(const std::filesystem::path& file,
                                          const std::string& what) {
  return read_object<nlohmann::ordered_json>(file, kMostMembers, what);
}

nlohmann::json read_config_file(const std::filesystem::path& file, const std::string& what) {
  return read_object<nlohmann::json>(file, std::nullopt, what);
}

nlohmann::ordered_json read_tokenizer_settings(const std::filesystem::path& tokenizer_file,
                                               const std::string& what) {
  auto settings = read_settings_file(tokenizer_file.parent_path() / kTokenizerSettings, what);
  return settings.is_null() ? nlohmann::ordered_json::object() : settings;
}

std::optional<std::string> text_of_token(const nlohmann::ordered_json& stated) {
  if (stated.is_string()) return stated.get<std::string>();
  if (!stated.is_object()) return std::nullopt;
  const auto content = stated.find("content");
  if (content == stated.end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

}  // namespace accrue::data
