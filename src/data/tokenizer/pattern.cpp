#include "data/tokenizer/pattern.h"

namespace accrue::data {

void Pattern::for_each(std::string_view text, const std::function<void(Extent)>& found) const {
  if (const auto* const words = std::get_if<std::string>(&pattern_)) {
    if (words->empty()) return;
    for (std::size_t at = text.find(*words); at != std::string_view::npos;
         at = text.find(*words, at + words->size()))
      found({at, at + words->size()});
    return;
  }
  Regex::Matcher matcher(std::get<Regex>(pattern_));
  for (std::optional<Extent> match = matcher.find(text, 0); match;
       match = matcher.find(text, match->end))
    found(*match);
}

void Pattern::replace(std::string& text, const std::string& content, TextGrowth& growth) const {
  std::string replaced;
  std::size_t end = 0;
  for_each(text, [&](Extent match) {
    growth.take(match.begin - end + content.size());
    replaced.append(text, end, match.begin - end).append(content);
    end = match.end;
  });
  if (end == 0) return;
  replaced.append(text, end);
  text = std::move(replaced);
}

Pattern read_pattern(const JsonPart& part) {
  const JsonPart pattern(part.object("pattern"), part.what(), part.name() + ".pattern");
  if (const auto text = pattern.optional_text("String")) return Pattern(*text);
  return Pattern(Regex(pattern.text("Regex"), part.what()));
}

}  // namespace accrue::data
