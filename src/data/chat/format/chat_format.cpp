#include "data/chat/format/chat_format.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "accrue/core/error.h"
#include "core/checksum.h"

namespace accrue::data {
namespace {

using SettingsJson = nlohmann::ordered_json;

SettingsJson variables_of_tokens(const Tokenizer& tokenizer) {
  SettingsJson variables = SettingsJson::object();
  for (const auto& [name, text] : tokenizer.special_texts()) variables[name] = text;
  return variables;
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

/// The content of a single template, or of several with their names.
std::string content_of(const ChatTemplates& templates) {
  if (templates.texts.size() == 1) return templates.texts.begin()->second;
  SettingsJson content = SettingsJson::object();
  for (const auto& [name, text] : templates.texts) content[name] = checksum_of(text);
  return content.dump(-1, ' ', false, SettingsJson::error_handler_t::replace);
}

}  // namespace

std::shared_ptr<const ChatFormat> read_chat_format(const Tokenizer& tokenizer,
                                                   const std::string& what) {
  ChatTemplates templates = read_chat_templates(tokenizer.file(), what);
  if (templates.texts.empty())
    throw usage_error(what, "a chat template beside the tokenizer",
                      "neither chat_template.jinja nor \"chat_template\" in tokenizer_config.json "
                      "in " +
                          tokenizer.file().parent_path().string(),
                      "the tokenizer of a model that was made for chat, or a chat_template.jinja");
  ChatSetting setting{
      .tools = nullptr, .variables = variables_of_tokens(tokenizer), .now = date_that_stays()};
  std::string fingerprint = checksum_of(content_of(templates) + setting.variables.dump());
  return std::make_shared<const ChatFormat>(
      ChatFormat{.templates = std::make_shared<const TemplateChoice>(std::move(templates), what),
                 .setting = std::move(setting),
                 .fingerprint = std::move(fingerprint)});
}

}  // namespace accrue::data
