#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/conversation/chat_variables.h"

namespace accrue::data {

/// One turn of the assistant.
struct ChatTurn {
  std::string prompt;     ///< the text before it
  std::string said;       ///< the text up to its end
  std::string continued;  ///< `said`, without the end-of-text token of a conversation that ends
  bool is_in(std::string_view text) const {
    return text.starts_with(prompt) && text.starts_with(continued);
  }
};

/// The texts of a conversation, for a template that does not mark learned parts.
class ConversationTurns {
 public:
  /// All are kept by reference. `withheld` states for each message whether it is only given.
  ConversationTurns(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                    const ChatSetting& setting, const std::vector<bool>& withheld)
      : chat_(chat), messages_(messages), setting_(setting), withheld_(withheld) {}

  /// The turns to be learned. Throws a usage Error if there is no message of the assistant, or if
  /// the template opens a turn differently than it prompts for one.
  std::vector<ChatTurn> read() const;
  /// The text of all messages.
  std::string whole() const;

 private:
  std::string text(std::size_t count, bool add_generation_prompt) const;
  ChatTurn turn(std::size_t index) const;
  std::string without_end(std::string_view said) const;

  const ChatTemplate& chat_;
  const nlohmann::ordered_json& messages_;
  const ChatSetting& setting_;
  const std::vector<bool>& withheld_;
};

}  // namespace accrue::data
