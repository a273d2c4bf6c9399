#include "data/tokenizer/pipeline/pattern.h"

namespace accrue::data {

void Pattern::for_each(std::string_view text, const std::function<void(Extent)>& found) const {
  if (const auto* const words = std::get_if<std::string>(&pattern_)) {
    if (words->empty()) return;
    for (std::size_t at = text.find(*words); at != std::string_view::npos;
         at = text.find(*words, at + words->size()))
      found({at, at + words->size()});
    return;
  }
  if (text.empty()) return;  // of which tokenizers asks nothing
  Regex::Matcher matcher(std::get<Regex>(pattern_), text);
  for (std::optional<Extent> match = matcher.next(); match; match = matcher.next()) found(*match);
}

void Pattern::replace(std::string& text, const std::string& content, TextGrowth& growth) const {
  std::string replaced;
  std::size_t end = 0;
  bool has_match = false;
  for_each(text, [&](Extent match) {
    growth.take(match.begin - end + content.size());
    replaced.append(text, end, match.begin - end).append(content);
    end = match.end;
    has_match = true;
  });
  if (!has_match) return;
  replaced.append(text, end);
  text = std::move(replaced);
}

Pattern read_pattern(const JsonPart& part) {
  const JsonPart pattern(part.object("pattern"), part.what(), part.name() + ".pattern");
  const auto text = pattern.optional_text("String");
  if (text && !text->empty()) return Pattern(*text);
  if (text) return Pattern(Regex("", part.what()));  // empty, which matches around each character
  return Pattern(Regex(pattern.text("Regex"), part.what()));
}

}  // namespace accrue::data
