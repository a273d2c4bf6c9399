#include "data/chat/conversation/first_prompt.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace accrue::data {
namespace {

using FirstMessage = nlohmann::ordered_json;

std::size_t common_beginning(std::string_view one, std::string_view other) {
  const auto ends = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  return static_cast<std::size_t>(ends.first - one.begin());
}

/// Where the character begins that contains the byte at `place`.
std::size_t character_begin(std::string_view text, std::size_t place) {
  while (place > 0 && place < text.size() &&
         (static_cast<unsigned char>(text[place]) & 0xc0) == 0x80)
    --place;
  return place;
}

/// Another answer, whose words begin with another character than the message's.
FirstMessage other_answer(const FirstMessage& message) {
  const auto content = message.find("content");
  std::string_view words;
  if (content != message.end() && content->is_string())
    words = content->get_ref<const std::string&>();
  const std::size_t first = words.find_first_not_of(" \t\r\n");
  const bool begins_with_a = first != std::string_view::npos && words[first] == 'a';
  return chat_message("assistant", begins_with_a ? "b" : "a");
}

std::string end_of(std::string_view text) {
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

class FirstPrompt {
 public:
  FirstPrompt(const ChatTemplate& chat, const FirstMessage& message, const std::string& said,
              const ChatSetting& setting)
      : chat_(chat), message_(message), said_(said), setting_(setting) {}

  std::string find() const {
    const FirstMessage question = chat_message("user", "a");
    const std::string asked = text(FirstMessage::array({question}), false);
    const std::string prompted = text(FirstMessage::array({question}), true);
    const std::string opening = prompted.substr(common_beginning(asked, prompted));
    return opening.empty() ? text_before(asked) : text_up_to(opening);
  }

 private:
  std::string text(const FirstMessage& messages, bool add_generation_prompt) const {
    return text_of_messages(chat_, messages, messages.size(), setting_, add_generation_prompt);
  }

  /// The last one before the answer's own words, as the text before it may have the same words.
  std::string text_up_to(const std::string& opening) const {
    const std::size_t shared =
        common_beginning(said_, text(FirstMessage::array({other_answer(message_)}), false));
    const std::size_t found =
        shared < opening.size() ? std::string::npos : said_.rfind(opening, shared - opening.size());
    if (found == std::string::npos) throw opened_otherwise(chat_, 0, opening);
    return said_.substr(0, found + opening.size());
  }

  std::string text_before(const std::string& asked) const {
    const std::string own = own_text().value_or("");
    if (!own.empty() && said_.ends_with(own)) return said_.substr(0, said_.size() - own.size());
    return said_.substr(0, character_begin(said_, common_beginning(said_, asked)));
  }

  /// The text that the message adds after itself; none if the template refuses two answers in a
  /// row, or renders the first of them differently.
  std::optional<std::string> own_text() const {
    try {
      const std::string twice = text(FirstMessage::array({message_, message_}), false);
      return twice.starts_with(said_) ? std::optional(twice.substr(said_.size())) : std::nullopt;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  const ChatTemplate& chat_;
  const FirstMessage& message_;
  const std::string& said_;
  const ChatSetting& setting_;
};

}  // namespace

std::string first_prompt(const ChatTemplate& chat, const FirstMessage& message,
                         const std::string& said, const ChatSetting& setting) {
  return FirstPrompt(chat, message, said, setting).find();
}

Error opened_otherwise(const ChatTemplate& chat, std::size_t index, std::string_view prompt) {
  return usage_error(
      chat.what(), "a template that writes what the assistant said behind its generation prompt",
      "another text for message " + std::to_string(index) + " than behind '" + end_of(prompt) + "'",
      "a template with {% generation %} blocks, or with the same words before what "
      "was said as before what is to be said");
}

}  // namespace accrue::data
