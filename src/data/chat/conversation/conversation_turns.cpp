#include "data/chat/conversation/conversation_turns.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "accrue/core/error.h"
#include "data/chat/conversation/first_prompt.h"

namespace accrue::data {

std::vector<ChatTurn> ConversationTurns::read() const {
  std::vector<ChatTurn> turns;
  for (std::size_t i = 0; i < messages_.size(); ++i)
    if (is_of_assistant(messages_[i]) && !withheld_[i]) turns.push_back(turn(i));
  if (turns.empty() && std::ranges::none_of(messages_, is_of_assistant))
    throw usage_error(chat_.what(), "a message of the role assistant, to be learned",
                      std::to_string(messages_.size()) + " messages without one", list_of_messages);
  return turns;
}

std::string ConversationTurns::whole() const { return text(messages_.size(), false); }

std::string ConversationTurns::text(std::size_t count, bool add_generation_prompt) const {
  return text_of_messages(chat_, messages_, count, setting_, add_generation_prompt);
}

ChatTurn ConversationTurns::turn(std::size_t index) const {
  std::string said = text(index + 1, false);
  std::string prompt =
      index == 0 ? first_prompt(chat_, messages_[index], said, setting_) : text(index, true);
  if (!said.starts_with(prompt)) throw opened_otherwise(chat_, index, prompt);
  std::string continued = without_end(said);
  if (continued.size() < prompt.size()) continued = said;
  return {std::move(prompt), std::move(said), std::move(continued)};
}

std::string ConversationTurns::without_end(std::string_view said) const {
  const auto token = setting_.variables.find("eos_token");
  if (token == setting_.variables.end() || !token->is_string()) return std::string(said);
  const auto& end = token->get_ref<const std::string&>();
  const bool has_end = !end.empty() && said.ends_with(end);
  return std::string(said.substr(0, said.size() - (has_end ? end.size() : 0)));
}

}  // namespace accrue::data
