#include "data/text/token_in_words.h"

#include <span>

#include "core/printable.h"
#include "core/utf8.h"

namespace accrue::data {

std::string token_in_words(std::int64_t id, const Tokenizer* tokenizer) {
  constexpr std::size_t longest = 60;
  const std::string number = "id " + std::to_string(id);
  if (tokenizer == nullptr || !tokenizer->has(id)) return number;
  std::string text = tokenizer->decode(std::span(&id, 1));
  if (text.size() > longest)
    text = text.substr(0, valid_utf8_prefix(text.substr(0, longest))) + "...";
  return number + " (\"" + printable_line(text) + "\")";
}

}  // namespace accrue::data
