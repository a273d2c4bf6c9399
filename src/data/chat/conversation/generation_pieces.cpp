#include "data/chat/conversation/generation_pieces.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

using GivenMessages = nlohmann::ordered_json;

class GenerationPieces {
 public:
  GenerationPieces(const ChatTemplate& chat, const GivenMessages& messages,
                   const ChatSetting& setting)
      : chat_(chat),
        messages_(messages),
        setting_(setting),
        pieces_(pieces_of(messages_.size())),
        blocks_(blocks_of(pieces_)) {}

  /// From now on nothing of the message is learned.
  void withhold(std::size_t message) {
    const std::size_t begin = message == 0 ? 0 : blocks_of(pieces_of(message)).size();
    const ChatSequence until = pieces_of(message + 1);
    const std::vector<std::size_t> known = blocks_of(until);
    if (known.size() > blocks_.size() || begin > known.size()) refuse(message);
    for (std::size_t block = begin; block < known.size(); ++block) {
      ChatTemplate::Piece& piece = pieces_[blocks_[block]];
      if (piece.text != until[known[block]].text) refuse(message);
      piece.is_learned = false;
    }
  }

  /// Joins consecutive given pieces: they are encoded as one text.
  ChatSequence take() const {
    ChatSequence joined;
    for (const ChatTemplate::Piece& piece : pieces_) {
      const bool goes_on = !joined.empty() && !joined.back().is_learned && !piece.is_learned;
      if (goes_on)
        joined.back().text += piece.text;
      else
        joined.push_back(piece);
    }
    return joined;
  }

 private:
  ChatSequence pieces_of(std::size_t count) const {
    const GivenMessages first = first_messages(messages_, count);
    return chat_.render_pieces(chat_variables(chat_, first, setting_, false), setting_.now);
  }

  static std::vector<std::size_t> blocks_of(const ChatSequence& pieces) {
    std::vector<std::size_t> blocks;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (pieces[i].is_learned) blocks.push_back(i);
    return blocks;
  }

  [[noreturn]] void refuse(std::size_t message) const {
    throw usage_error(chat_.what(),
                      "a template with the same {% generation %} blocks of a message, whatever "
                      "follows it",
                      "others for message " + std::to_string(message) + ", which is only given",
                      "a template without such blocks, or the line without that message's weight");
  }

  const ChatTemplate& chat_;
  const GivenMessages& messages_;
  const ChatSetting& setting_;
  ChatSequence pieces_;
  std::vector<std::size_t> blocks_;  ///< positions of the template's blocks
};

}  // namespace

ChatSequence generation_pieces(const ChatTemplate& chat, const GivenMessages& messages,
                               const ChatSetting& setting, const std::vector<bool>& withheld) {
  GenerationPieces pieces(chat, messages, setting);
  for (std::size_t i = 0; i < withheld.size(); ++i)
    if (withheld[i]) pieces.withhold(i);
  return pieces.take();
}

}  // namespace accrue::data
