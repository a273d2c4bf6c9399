#include "cli/text/conversation.h"

#include <optional>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "data/chat/format/turn_end.h"

namespace accrue::cli {
namespace {

using Messages = nlohmann::ordered_json;

/// More than any context holds. A template is a foreign file, and may repeat a text.
constexpr std::int64_t kMostPromptBytes = std::int64_t{16} << 20;

std::shared_ptr<const data::ChatFormat> chat_format_of(const TextModel& text_model) {
  if (text_model.tokenizer == nullptr)
    throw usage_error("accrue sample --chat", "a model with a chat template",
                      "a model of bytes, which has none",
                      "accrue sample without --chat, which continues a text");
  if (text_model.chat) return text_model.chat;
  return data::read_chat_format(*text_model.tokenizer, "accrue sample --chat");
}

}  // namespace

Conversation::Conversation(const TextModel& text_model, const AnswerOptions& options,
                           const std::string& system)
    : text_model_(text_model),
      options_(options),
      format_(chat_format_of(text_model)),
      chat_(format_->templates->for_tools(format_->setting.tools)),
      decoding_(*text_model.model) {
  // A model trained with the template may have another end of text (a base model's).
  if (const std::optional<std::int64_t> end = data::turn_end(*format_, *text_model.tokenizer))
    options_.generate.end_tokens.push_back(*end);
  if (!system.empty()) messages_.push_back(data::chat_message("system", system));
}

std::string Conversation::rendered(const Messages& messages, bool add_generation_prompt) const {
  const Messages variables =
      data::chat_variables(chat_, messages, format_->setting, add_generation_prompt);
  std::string text = chat_.render(variables, format_->setting.now);
  if (std::ssize(text) > kMostPromptBytes)
    throw usage_error(
        "render " + std::to_string(messages.size()) + " messages by the chat template",
        "a prompt of at most " + format_bytes(kMostPromptBytes),
        format_bytes(static_cast<std::int64_t>(text.size())),
        "a template that repeats less, or shorter messages");
  return text;
}

Answer Conversation::reply(const std::string& message, const TextCallback& tell) {
  Messages messages = messages_;
  messages.push_back(data::chat_message("user", message));
  const std::vector<std::int64_t> prompt =
      text_model_.tokenizer->encode(rendered(messages, /*add_generation_prompt=*/true));
  Answer answer = make_answer(text_model_, decoding_, prompt, options_, tell);
  messages.push_back(data::chat_message("assistant", answer.text));
  messages_ = std::move(messages);
  return answer;
}

}  // namespace accrue::cli
