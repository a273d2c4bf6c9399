#include "data/chat/conversation/learned_pieces.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "accrue/core/error.h"
#include "data/chat/conversation/conversation_turns.h"
#include "data/chat/conversation/message_weight.h"

namespace accrue::data {
namespace {

using ChatJson = nlohmann::ordered_json;

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

/// One sequence for the whole conversation and one for each turn that it does not show unchanged,
/// unless another of these does.
std::vector<ChatSequence> sequences_of_turns(const ConversationTurns& conversation) {
  const std::vector<ChatTurn> turns = conversation.read();
  std::vector<const ChatTurn*> left;
  for (const ChatTurn& turn : turns) left.push_back(&turn);
  std::vector<ChatSequence> sequences;
  std::string text = conversation.whole();
  if (left.empty()) return {pieces_with(text, left)};
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

}  // namespace

bool teaches_something(const ChatSequence& sequence) {
  return std::ranges::any_of(sequence,
                             [](const ChatTemplate::Piece& piece) { return piece.is_learned; });
}

std::vector<ChatSequence> learned_sequences(const ChatTemplate& chat, const ChatJson& messages,
                                            const ChatSetting& setting) {
  check_messages(chat, messages);
  if (messages.empty())
    throw usage_error(chat.what(), "a message of the role assistant, to be learned", "no messages",
                      list_of_messages);
  const std::vector<bool> withheld = withheld_messages(messages, chat.what());
  std::vector<ChatSequence> sequences =
      chat.has_generation()
          ? std::vector<ChatSequence>{generation_pieces(chat, messages, setting, withheld)}
          : sequences_of_turns(ConversationTurns(chat, messages, setting, withheld));
  if (std::ranges::none_of(sequences, teaches_something)) {
    if (std::find(withheld.begin(), withheld.end(), true) != withheld.end()) return sequences;
    throw usage_error(chat.what(), "words of the assistant in what the template writes",
                      std::to_string(messages.size()) + " messages without any", list_of_messages);
  }
  std::erase_if(sequences,
                [](const ChatSequence& sequence) { return !teaches_something(sequence); });
  return sequences;
}

}  // namespace accrue::data
