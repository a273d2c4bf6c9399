#include "train/config/toml/toml_mistakes.h"

#include <array>
#include <regex>
#include <sstream>
#include <utility>

#include "core/lower_case.h"

namespace accrue::train {
namespace {

constexpr std::string_view kBlank = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// The intended meaning of a word after a '='.
enum class Meaning { as_it_stands, boolean, text };

/// A word that begins like a number is a text only with a unit: "10 min", "6GiB", "5%".
bool is_quantity(const std::string& word) {
  static const std::regex pattern(R"([0-9][0-9_.]*( [A-Za-z]+)*( ?%| ?[A-Za-z]{2,}|[A-Zhms]))");
  return std::regex_match(word, pattern);
}

Meaning meaning_of(const std::string& word) {
  static const std::regex boolean("[Tt]rue|TRUE|[Ff]alse|FALSE"),
      number("[+-]?(inf|nan|[0-9.+-].*)"), quoted("[\"'].*");
  if (word == "true" || word == "false" || std::regex_match(word, quoted))
    return Meaning::as_it_stands;
  if (std::regex_match(word, boolean)) return Meaning::boolean;
  if (is_quantity(word)) return Meaning::text;
  // Paths may begin with points.
  const bool is_path = word.starts_with("./") || word.starts_with("../");
  return !is_path && std::regex_match(word, number) ? Meaning::as_it_stands : Meaning::text;
}

/// Goes through a value and corrects the words between its brackets and commas.
class Corrector {
 public:
  explicit Corrector(std::string_view value) : rest_(value) {}

  std::string run() {
    while (!rest_.empty() && rest_.front() != '#') take();
    finish_word();
    return out_ + std::string(rest_);
  }
  bool quoted() const { return quoted_; }
  bool changed() const { return quoted_ || respelt_; }

 private:
  void take() {
    constexpr std::string_view marks = "[]{},=";
    const char c = rest_.front();
    if ((c == '"' || c == '\'') && trimmed(word_).empty()) return take_string(c);
    rest_.remove_prefix(1);
    if (marks.find(c) == std::string_view::npos) {
      word_ += c;
      return;
    }
    if (c == '=') {  // The text before it is the key of an inline table.
      out_ += word_;
      word_.clear();
    }
    finish_word();
    out_ += c;
  }

  void take_string(char quote) {
    const std::size_t end = rest_.find(quote, 1);
    const std::size_t size = end == std::string_view::npos ? rest_.size() : end + 1;
    out_ += word_ + std::string(rest_.substr(0, size));
    word_.clear();
    rest_.remove_prefix(size);
  }

  void finish_word() {
    const std::string word(trimmed(word_));
    if (word.empty()) {
      out_ += word_;
    } else {
      const std::size_t before = word_.find(word);
      out_ += word_.substr(0, before) + respelt(word) + word_.substr(before + word.size());
    }
    word_.clear();
  }

  std::string respelt(const std::string& word) {
    switch (meaning_of(word)) {
      case Meaning::boolean:
        respelt_ = true;
        return lower_case(word);
      case Meaning::text:
        quoted_ = true;
        return '"' + word + '"';
      case Meaning::as_it_stands:
        break;
    }
    return word;
  }

  std::string_view rest_;
  std::string word_, out_;
  bool quoted_ = false, respelt_ = false;
};

/// The offset of the value of a line: after its first '=', or at its start inside an array.
std::size_t begin_of_value(const std::string& line) {
  const std::size_t equals = line.find('=');
  return equals == std::string::npos ? 0 : equals + 1;
}

}  // namespace

std::optional<Correction> corrected_value(const std::string& value) {
  Corrector corrector(value);
  const std::string line = corrector.run();
  if (!corrector.changed()) return std::nullopt;
  return Correction{corrector.quoted() ? "quotes around a text" : "true or false, in small letters",
                    line};
}

std::optional<Correction> corrected(const std::string& line) {
  const std::size_t begin = begin_of_value(line);
  std::optional<Correction> found = corrected_value(line.substr(begin));
  if (found) found->line = std::string(trimmed(line.substr(0, begin) + found->line));
  return found;
}

std::optional<Correction> with_straight_quotes(const std::string& line) {
  constexpr std::array<std::pair<std::string_view, char>, 6> straight{{{"\u201c", '"'},
                                                                       {"\u201d", '"'},
                                                                       {"\u201e", '"'},
                                                                       {"\u2018", '\''},
                                                                       {"\u2019", '\''},
                                                                       {"\u201a", '\''}}};
  std::string text = line;
  for (const auto& [curly, quote] : straight)
    for (std::size_t at = text.find(curly); at != std::string::npos; at = text.find(curly, at))
      text.replace(at, curly.size(), 1, quote);
  if (text == line) return std::nullopt;
  return Correction{"straight quotes around a text", std::string(trimmed(text))};
}

std::optional<Correction> with_equals_sign(const std::string& line) {
  static const std::regex pattern(
      R"(\s*([A-Za-z_][A-Za-z0-9_.-]*)(?:\s*:\s*|\s+)([^\s=#:,][^=]*))");
  std::smatch parts;
  if (!std::regex_match(line, parts, pattern)) return std::nullopt;
  const std::string value(trimmed(parts[2].str()));
  const auto respelt = corrected_value(value);
  return Correction{"= between a key and its value",
                    parts[1].str() + " = " + (respelt ? respelt->line : value)};
}

std::optional<Correction> with_closed_header(const std::string& line) {
  const std::string text(trimmed(line));
  if (!text.starts_with('[') || text.find_first_of("]=#\"',") != std::string::npos)
    return std::nullopt;
  return Correction{"a ] after the name of a section",
                    text + (text.starts_with("[[") ? "]]" : "]")};
}

bool leaves_quote_open(const std::string& line) {
  for (const char* of_many_lines : {"\"\"\"", "'''"})
    if (line.find(of_many_lines) != std::string::npos) return false;
  char open = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (open == 0 && c == '#') return false;
    if (open == '"' && c == '\\')
      ++i;
    else if (open == 0 && (c == '"' || c == '\''))
      open = c;
    else if (c == open)
      open = 0;
  }
  return open != 0;
}

bool states_null(const std::string& line) {
  static const std::regex pattern(R"([^=]*=\s*([Nn]one|[Nn]ull|NULL|nil)\s*(#.*)?)");
  return std::regex_match(line, pattern);
}

bool is_prose(std::string_view text) {
  static const std::regex statement(R"(\[.*|[^=]*=.*|\S+(\s+\S+)?)");
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::string_view words = trimmed(line);
    if (words.empty() || words.front() == '#') continue;
    constexpr std::size_t longest_statement = 1000;  // a regex recurses over the text
    return words.size() > longest_statement || words.starts_with("\"\"\"") ||
           !std::regex_match(words.begin(), words.end(), statement);
  }
  return false;
}

std::optional<std::string> other_format(std::string_view text) {
  static const std::regex yaml(R"((---.*)|([A-Za-z_][A-Za-z0-9_.-]*\s*:(\s.*)?))");
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::string_view words = trimmed(line);
    if (words.empty() || words.front() == '#') continue;
    if (words.front() == '{') return "JSON";
    if (std::regex_match(words.begin(), words.end(), yaml)) return "YAML";
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace accrue::train
