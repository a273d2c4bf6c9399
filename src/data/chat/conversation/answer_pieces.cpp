#include "data/chat/conversation/answer_pieces.h"

#include <algorithm>
#include <string>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

std::string text_of_pieces(const ChatSequence& pieces) {
  std::string text;
  for (const ChatTemplate::Piece& piece : pieces) text += piece.text;
  return text;
}

/// The pieces, with nothing learned in the first `begin` bytes.
ChatSequence learned_behind(const ChatSequence& pieces, std::size_t begin) {
  ChatSequence result;
  std::size_t at = 0;
  for (const ChatTemplate::Piece& piece : pieces) {
    const std::size_t before = std::min(piece.text.size(), begin - std::min(begin, at));
    if (before > 0) result.push_back({piece.text.substr(0, before), false});
    if (before < piece.text.size()) result.push_back({piece.text.substr(before), piece.is_learned});
    at += piece.text.size();
  }
  return result;
}

}  // namespace

ChatSequence answer_pieces(const ChatTemplate& chat, const nlohmann::ordered_json& messages,
                           std::size_t given, const ChatSetting& setting) {
  ChatSequence pieces = learned_sequences(chat, messages, setting).back();
  if (given > 0) {
    const std::string prompt =
        text_of_messages(chat, messages, given, setting, /*add_generation_prompt=*/true);
    if (!text_of_pieces(pieces).starts_with(prompt))
      throw usage_error(chat.what(), "a template that writes an answer behind its prompt",
                        "another text of the first " + std::to_string(given) +
                            " messages where an answer follows them",
                        "lines of a shorter conversation, or texts for the prompt and the answers");
    pieces = learned_behind(pieces, prompt.size());
  }
  if (!teaches_something(pieces))
    throw usage_error(chat.what(), "words of the assistant behind the prompt", "none",
                      R"([{"role": "assistant", "content": "..."}] as an answer)");
  return pieces;
}

}  // namespace accrue::data
