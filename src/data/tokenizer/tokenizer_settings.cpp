#include "data/tokenizer/tokenizer_settings.h"

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/json_extent.h"
#include "data/text/tokenizer_files.h"

namespace accrue::data {
namespace {

/// An ordered object takes time quadratic in its members: so many take half a second. The largest
/// vocabularies have some 6,000 added tokens, each a member.
constexpr std::size_t kMostMembers = 20'000;

}  // namespace

nlohmann::ordered_json read_tokenizer_settings(const std::filesystem::path& tokenizer_file,
                                               const std::string& what) {
  const std::filesystem::path file = tokenizer_file.parent_path() / kTokenizerSettings;
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable)) return nlohmann::ordered_json::object();
  const std::string content = read_file(file);
  if (const JsonExtent extent = extent_of_json(content);
      extent.depth > kDeepestJson || extent.members > kMostMembers)
    throw usage_error(what + ": " + file.string(),
                      "at most " + std::to_string(kMostMembers) + " members of an object, and " +
                          std::to_string(kDeepestJson) + " objects within each other",
                      "more", "the tokenizer_config.json that the model came with");
  auto settings = nlohmann::ordered_json::parse(content, nullptr, /*exceptions=*/false);
  if (settings.is_object()) return settings;
  throw usage_error(what + ": " + file.string(), "a JSON object", "something else or broken JSON",
                    "the tokenizer_config.json that the model came with");
}

std::optional<std::string> text_of_token(const nlohmann::ordered_json& stated) {
  if (stated.is_string()) return stated.get<std::string>();
  if (!stated.is_object()) return std::nullopt;
  const auto content = stated.find("content");
  if (content == stated.end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

}  // namespace accrue::data
