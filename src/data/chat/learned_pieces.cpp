#include "data/chat/learned_pieces.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

using ChatJson = nlohmann::ordered_json;

constexpr const char* list_of_messages =
    "[{\"role\": \"user\", \"content\": \"...\"}, {\"role\": \"assistant\", \"content\": \"...\"}]";

void check_messages(const ChatTemplate& chat, const ChatJson& messages) {
  const bool is_list =
      messages.is_array() &&
      std::ranges::all_of(messages, [](const ChatJson& one) { return one.is_object(); });
  if (!is_list)
    throw usage_error(chat.what(), "a list of objects as messages", messages.type_name(),
                      list_of_messages);
}

/// A message with what was thought under the names by which templates read it.
ChatJson with_reasoning(const ChatJson& message) {
  for (const char* const name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    ChatJson renamed = {{"thinking", *found}};
    for (const auto& [key, value] : message.items()) renamed[key] = value;
    renamed["reasoning_content"] = *found;
    return renamed;
  }
  return message;
}

/// One turn of the assistant by itself.
struct ChatTurn {
  std::string prompt;     ///< the text before it
  std::string said;       ///< the text up to its end
  std::string continued;  ///< `said`, without the end-of-text token of a conversation that ends
  bool is_in(std::string_view text) const {
    return text.starts_with(prompt) && text.starts_with(continued);
  }
};

class ConversationTurns {
 public:
  ConversationTurns(const ChatTemplate& chat, const ChatJson& messages, const ChatSetting& setting)
      : chat_(chat), messages_(messages), setting_(setting) {}

  std::vector<ChatTurn> read() const {
    std::vector<ChatTurn> turns;
    for (std::size_t i = 0; i < messages_.size(); ++i)
      if (is_of_assistant(messages_[i])) turns.push_back(turn(i));
    if (turns.empty())
      throw usage_error(chat_.what(), "a message of the role assistant, to be learned",
                        std::to_string(messages_.size()) + " messages without one",
                        list_of_messages);
    return turns;
  }

  std::string whole() const { return text(messages_.size(), false); }

 private:
  static bool is_of_assistant(const ChatJson& message) {
    const auto role = message.find("role");
    return role != message.end() && *role == "assistant";
  }

  /// The text of the first messages.
  std::string text(std::size_t count, bool add_generation_prompt) const {
    ChatJson first = ChatJson::array();
    for (std::size_t i = 0; i < count; ++i) first.push_back(messages_[i]);
    return chat_.render(chat_variables(chat_, first, setting_, add_generation_prompt),
                        setting_.now);
  }

  ChatTurn turn(std::size_t index) const {
    ChatTurn turn{text(index, true), text(index + 1, false), ""};
    if (!turn.said.starts_with(turn.prompt))
      throw usage_error(
          chat_.what(),
          "a template that writes what the assistant said behind its generation prompt",
          "another text for message " + std::to_string(index) + " than behind '" +
              end_of(turn.prompt) + "'",
          "a template with {% generation %} blocks, or with the same words before "
          "what was said as before what is to be said");
    turn.continued = without_end(turn.said);
    if (turn.continued.size() < turn.prompt.size()) turn.continued = turn.said;
    return turn;
  }

  std::string without_end(std::string_view said) const {
    const auto token = setting_.variables.find("eos_token");
    if (token == setting_.variables.end() || !token->is_string()) return std::string(said);
    const auto& end = token->get_ref<const std::string&>();
    const bool has_end = !end.empty() && said.ends_with(end);
    return std::string(said.substr(0, said.size() - (has_end ? end.size() : 0)));
  }

  static std::string end_of(std::string_view text) {
    constexpr std::size_t most = 60;
    std::size_t from = text.size() > most ? text.size() - most : 0;
    while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) ++from;
    std::string shown;
    for (const char c : text.substr(from))
      if (c == '\n')
        shown += "\\n";
      else
        shown += c;
    return shown;
  }

  const ChatTemplate& chat_;
  const ChatJson& messages_;
  const ChatSetting& setting_;
};

/// The text with these turns learned.
ChatSequence pieces_with(std::string_view text, const std::vector<const ChatTurn*>& turns) {
  ChatSequence pieces;
  std::size_t at = 0;
  const auto add = [&](std::size_t end, bool is_learned) {
    if (end > at) pieces.push_back({std::string(text.substr(at, end - at)), is_learned});
    at = std::max(at, end);
  };
  for (const ChatTurn* const turn : turns) {
    add(turn->prompt.size(), false);
    add(text.starts_with(turn->said) ? turn->said.size() : turn->continued.size(), true);
  }
  add(text.size(), false);
  return pieces;
}

/// One sequence for the whole conversation and one for each turn that it does not have as it was,
/// unless another of these has it.
std::vector<ChatSequence> sequences_of_turns(const ConversationTurns& conversation) {
  const std::vector<ChatTurn> turns = conversation.read();
  std::vector<const ChatTurn*> left;
  for (const ChatTurn& turn : turns) left.push_back(&turn);
  std::vector<ChatSequence> sequences;
  std::string text = conversation.whole();
  while (true) {
    const auto split = std::stable_partition(
        left.begin(), left.end(), [&](const ChatTurn* turn) { return !turn->is_in(text); });
    const std::vector<const ChatTurn*> learned(split, left.end());
    left.erase(split, left.end());
    if (!learned.empty()) sequences.push_back(pieces_with(text, learned));
    if (left.empty()) break;
    text = left.back()->said;
  }
  std::ranges::reverse(sequences);
  return sequences;
}

bool teaches_nothing(const ChatSequence& sequence) {
  return std::ranges::none_of(sequence,
                              [](const ChatTemplate::Piece& piece) { return piece.is_learned; });
}

}  // namespace

ChatJson chat_variables(const ChatTemplate& chat, const ChatJson& messages,
                        const ChatSetting& setting, bool add_generation_prompt) {
  check_messages(chat, messages);
  ChatJson variables = setting.variables;
  ChatJson& shown = variables["messages"] = ChatJson::array();
  for (const ChatJson& message : messages) shown.push_back(with_reasoning(message));
  variables["tools"] = setting.tools;
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = add_generation_prompt;
  return variables;
}

std::vector<ChatSequence> learned_sequences(const ChatTemplate& chat, const ChatJson& messages,
                                            const ChatSetting& setting) {
  check_messages(chat, messages);
  std::vector<ChatSequence> sequences =
      chat.has_generation() ? std::vector<ChatSequence>{chat.render_pieces(
                                  chat_variables(chat, messages, setting, false), setting.now)}
                            : sequences_of_turns(ConversationTurns(chat, messages, setting));
  std::erase_if(sequences, teaches_nothing);
  if (sequences.empty())
    throw usage_error(chat.what(), "words of the assistant in what the template writes",
                      std::to_string(messages.size()) + " messages without any", list_of_messages);
  return sequences;
}

}  // namespace accrue::data
