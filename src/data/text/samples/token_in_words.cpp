#include "data/text/samples/token_in_words.h"

#include <span>

#include "core/printable.h"
#include "data/json/line_problem.h"

namespace accrue::data {

std::string token_in_words(std::int64_t id, const Tokenizer* tokenizer) {
  const std::string number = "id " + std::to_string(id);
  if (tokenizer == nullptr || !tokenizer->has(id)) return number;
  const std::string text = shortened(tokenizer->decode(std::span(&id, 1)));
  return number + " (\"" + printable_line(text) + "\")";
}

}  // namespace accrue::data
