#include "data/chat/template/functions/template_filters.h"
#include "data/chat/template/values/python_text.h"
#include "data/chat/template/values/value_operations.h"
#include "data/chat/template/values/value_text.h"

namespace accrue::data::jinja {
namespace {

/// The input as jinja2's soft_str converts it; a text that went through `safe` would stay so.
std::string soft_text(const Value& input, const CallArguments& arguments, Work& work) {
  if (input.is<Markup>()) arguments.refuse("a text that did not go through 'safe'", "one that did");
  std::string text = str_of(input, work);
  work.spend(text.size());
  return text;
}

template <auto changed>
Value changed_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({});
  return Value::text(changed(soft_text(input, arguments, work)));
}

Value trim_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"chars"});
  const Value* const characters = arguments.find("chars");
  std::optional<std::string> given;
  if (characters != nullptr && !characters->is<None>()) given = arguments.text("chars");
  return Value::text(std::string(stripped(soft_text(input, arguments, work), given, true, true)));
}

/// Words begin after these, unlike those of str.title.
std::string title_of_words(const std::string& text) {
  constexpr std::string_view before_words = "-({[<";
  std::string result, word;
  const auto end_word = [&] {
    if (word.empty()) return;
    const std::vector<std::string> characters = characters_of(word);
    result += upper_text(characters.front());
    result += lower_text(std::string_view(word).substr(characters.front().size()));
    word.clear();
  };
  for (const std::string& character : characters_of(text)) {
    const bool separates =
        before_words.find(character) != std::string_view::npos || is_white_space(character);
    if (!separates) {
      word += character;
      continue;
    }
    end_word();
    result += character;
  }
  end_word();
  return result;
}

Value replace_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"old", "new", "count"}, 2);
  const Value* const stated = arguments.find("count");
  const bool has_count = stated != nullptr && !stated->is<None>();
  const std::int64_t most = has_count ? arguments.integer("count", -1) : -1;
  const std::string text = soft_text(input, arguments, work);
  const std::string old = soft_text(arguments.get("old"), arguments, work);
  const std::string by = soft_text(arguments.get("new"), arguments, work);
  work.spend(count_text(text, old) * by.size());
  return Value::text(replaced(text, old, by, most));
}

std::string indention_of(const CallArguments& arguments) {
  const Value* const width = arguments.find("width");
  if (width != nullptr && width->is_text()) return width->as_text();
  constexpr std::int64_t widest = 1000;
  const std::int64_t spaces = arguments.integer("width", 4);
  if (spaces > widest) arguments.refuse("a width of at most " + std::to_string(widest), "more");
  return std::string(static_cast<std::size_t>(std::max<std::int64_t>(spaces, 0)), ' ');
}

Value indent_filter(const Value& input, CallArguments& arguments, Work& work) {
  arguments.expect({"width", "first", "blank"});
  if (!input.is_text()) arguments.refuse("a text", input.type_name());
  const std::string indention = indention_of(arguments);
  const bool blank = arguments.truth("blank", false);
  const std::vector<std::string> lines = split_lines(input.as_text() + "\n", false);
  work.spend(lines.size() * (indention.size() + sizeof(std::string)) + input.as_text().size());
  std::string result = arguments.truth("first", false) ? indention : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) result += blank || !lines[i].empty() ? "\n" + indention : "\n";
    result += lines[i];
  }
  return Value::text(std::move(result));
}

Value format_filter(const Value& input, CallArguments& arguments, Work& work) {
  if (!arguments.named.empty()) arguments.refuse("arguments without names", "one with a name");
  const std::string format = soft_text(input, arguments, work);
  return Value::text(percent_format(format, Value::tuple(arguments.positional), work));
}

}  // namespace

const FilterTable& text_filters() {
  static const FilterTable table = {
      {"capitalize", changed_filter<capitalized>},
      {"format", format_filter},
      {"indent", indent_filter},
      {"lower", changed_filter<lower_text>},
      {"replace", replace_filter},
      {"title", changed_filter<title_of_words>},
      {"trim", trim_filter},
      {"upper", changed_filter<upper_text>},
  };
  return table;
}

}  // namespace accrue::data::jinja
