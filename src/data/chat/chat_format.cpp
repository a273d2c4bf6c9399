#include "data/chat/chat_format.h"

#include <optional>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "data/text/tokenizer_files.h"
#include "data/tokenizer/tokenizer_settings.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;
using SettingsJson = nlohmann::ordered_json;

/// The template that is stated; where there are several it is the one named "default".
std::optional<std::string> template_of(const SettingsJson& stated) {
  if (stated.is_string()) return stated.get<std::string>();
  if (!stated.is_array()) return std::nullopt;
  for (const SettingsJson& one : stated) {
    if (!one.is_object() || one.value("name", SettingsJson()) != "default") continue;
    const SettingsJson source = one.value("template", SettingsJson());
    if (source.is_string()) return source.get<std::string>();
  }
  return std::nullopt;
}

std::string template_beside(const fs::path& folder, const SettingsJson& settings,
                            const std::string& what) {
  const fs::path file = folder / kChatTemplateFile;
  std::error_code unreadable;
  if (fs::exists(file, unreadable)) return read_file(file);
  const std::optional<std::string> stated =
      template_of(settings.value("chat_template", SettingsJson()));
  if (stated) return *stated;
  throw usage_error(what, "a chat template beside the tokenizer",
                    "neither " + file.string() +
                        " nor \"chat_template\" (of several one named default) in " +
                        "tokenizer_config.json",
                    "the tokenizer of a model that was made for chat, or a chat_template.jinja");
}

SettingsJson special_tokens_of(const SettingsJson& settings) {
  SettingsJson tokens = SettingsJson::object();
  for (const auto& [key, value] : settings.items())
    if (key.ends_with("_token"))
      if (const std::optional<std::string> text = text_of_token(value)) tokens[key] = *text;
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

}  // namespace

std::shared_ptr<const ChatFormat> read_chat_format(const fs::path& tokenizer_file,
                                                   const std::string& what) {
  const fs::path folder = tokenizer_file.parent_path();
  const SettingsJson settings = read_tokenizer_settings(tokenizer_file, what);
  const std::string source = template_beside(folder, settings, what);
  ChatSetting setting{
      .tools = nullptr, .variables = special_tokens_of(settings), .now = date_that_stays()};
  std::string fingerprint = checksum_of(source + setting.variables.dump());
  return std::make_shared<const ChatFormat>(ChatFormat{.chat = ChatTemplate::parse(source, what),
                                                       .setting = std::move(setting),
                                                       .fingerprint = std::move(fingerprint)});
}

}  // namespace accrue::data
