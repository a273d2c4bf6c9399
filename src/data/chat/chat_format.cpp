#include "data/chat/chat_format.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "accrue/core/error.h"
#include "core/checksum.h"
#include "data/tokenizer/folder_tokens.h"
#include "data/tokenizer/tokenizer_settings.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;
using SettingsJson = nlohmann::ordered_json;

/// The texts of the named tokens, as templates read them.
SettingsJson special_tokens_of(const FolderTokens& folder) {
  SettingsJson tokens = SettingsJson::object();
  for (const auto& [key, value] : folder.settings.items())
    if (key.ends_with("_token"))
      if (const std::optional<std::string> text = text_of_token(value)) tokens[key] = *text;
  const auto named = folder.settings.find("extra_special_tokens");
  if (named != folder.settings.end() && named->is_object())
    for (const auto& [key, value] : named->items())
      if (const std::optional<std::string> text = text_of_token(value)) tokens[key] = *text;
  for (const auto& [name, text] :
       {std::pair{"bos_token", &folder.bos}, std::pair{"eos_token", &folder.eos},
        std::pair{"pad_token", &folder.pad}, std::pair{"unk_token", &folder.unk}})
    if (text->has_value()) tokens[name] = **text;
  return tokens;
}

std::tm date_that_stays() {
  std::tm date{};
  date.tm_year = 2024 - 1900;
  date.tm_mon = 6;
  date.tm_mday = 26;
  date.tm_wday = 5;
  date.tm_yday = 207;
  return date;
}

/// One template says by itself what it is; of several it takes the names, too.
std::string content_of(const ChatTemplates& templates) {
  if (templates.texts.size() == 1) return templates.texts.begin()->second;
  SettingsJson content = SettingsJson::object();
  for (const auto& [name, text] : templates.texts) content[name] = checksum_of(text);
  return content.dump(-1, ' ', false, SettingsJson::error_handler_t::replace);
}

}  // namespace

std::shared_ptr<const ChatFormat> read_chat_format(const fs::path& tokenizer_file,
                                                   const std::string& what) {
  ChatTemplates templates = read_chat_templates(tokenizer_file, what);
  if (templates.texts.empty())
    throw usage_error(what, "a chat template beside the tokenizer",
                      "neither chat_template.jinja nor \"chat_template\" in tokenizer_config.json "
                      "in " +
                          tokenizer_file.parent_path().string(),
                      "the tokenizer of a model that was made for chat, or a chat_template.jinja");
  ChatSetting setting{.tools = nullptr,
                      .variables = special_tokens_of(read_folder_tokens(tokenizer_file, what)),
                      .now = date_that_stays()};
  std::string fingerprint = checksum_of(content_of(templates) + setting.variables.dump());
  return std::make_shared<const ChatFormat>(
      ChatFormat{.templates = std::make_shared<const TemplateChoice>(std::move(templates), what),
                 .setting = std::move(setting),
                 .fingerprint = std::move(fingerprint)});
}

}  // namespace accrue::data
