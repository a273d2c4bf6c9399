#include "data/tokenizer/regex/regex_parser.h"

#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "data/tokenizer/regex/regex_builder.h"
#include "data/tokenizer/regex/regex_class.h"
#include "data/tokenizer/regex/regex_reader.h"

namespace accrue::data {
namespace {

constexpr int deepest_group = 100;

class RegexParser {
 public:
  RegexParser(std::string_view pattern, const std::string& what)
      : reader_(pattern, what), builder_(reader_) {}

  RegexParts parse() {
    alternatives(Options(), 0);
    if (!reader_.is_at_end()) reader_.reject("a ) without (");
    RegexParts parts = builder_.finish();
    check_references(parts);
    return parts;
  }

 private:
  struct Options {
    bool ignores_case = false;
    bool dot_is_any = false;  ///< and not all but the line feed
    bool has_spaces = false;  ///< and comments, which are ignored
  };

  void alternatives(Options options, int depth);
  void alternative(Options options, int depth);
  bool skip_comment(Options options);
  void read_escape(Options options);
  bool read_place();
  bool read_reference(Options options);
  void read_named_reference(Options options);
  void refer_to(std::size_t group, Options options);
  bool read_group(Options options, int depth);
  bool read_options(Options options, int depth);
  void read_name(std::string_view end);
  bool read_repeat();
  bool read_interval();
  void check_references(const RegexParts& parts) const;

  RegexReader reader_;
  RegexBuilder builder_;
  std::size_t groups_ = 0, named_groups_ = 0;
  bool has_numbers_ = false;                  ///< there are references by number
  std::map<std::string, std::size_t> names_;  ///< 0: of several groups
};

void RegexParser::alternatives(Options options, int depth) {
  if (depth > deepest_group) reader_.refuse("groups within so many others");
  while (true) {
    alternative(options, depth);
    if (!reader_.skip("|")) return;
    builder_.next_alternative();
  }
}

void RegexParser::alternative(Options options, int depth) {
  while (true) {
    while (skip_comment(options)) {
    }
    const std::string_view rest = reader_.rest();
    if (rest.empty() || rest.front() == '|' || rest.front() == ')') return;
    if (read_repeat()) continue;
    if (reader_.skip("\\")) {
      read_escape(options);
    } else if (reader_.skip("[")) {
      builder_.one_of_class(read_regex_class(reader_), options.ignores_case);
    } else if (reader_.skip(".")) {
      builder_.one_of(options.dot_is_any ? CodePoints::all() : ~CodePoints::one('\n'));
    } else if (reader_.skip("^")) {  // not after the last line feed of a text
      builder_.place("(?:\\A|(?<=", CodePoints::one('\n'), ")(?!\\z))");
    } else if (reader_.skip("$")) {
      builder_.place("(?=", CodePoints::one('\n'), "|\\z)");
    } else if (!reader_.skip("(")) {
      builder_.letter(reader_.next(), options.ignores_case);
    } else if (!read_group(options, depth)) {
      return;
    }
  }
}

/// Skips comments and ignored spaces.
bool RegexParser::skip_comment(Options options) {
  if (reader_.skip("(?#")) {
    while (!reader_.skip(")")) {
      if (reader_.is_at_end()) reader_.reject("a comment without )");
      if (reader_.next() == '\\' && !reader_.is_at_end()) reader_.next();
    }
    return true;
  }
  if (!options.has_spaces) return false;
  for (const char* const space : {" ", "\t", "\n", "\r", "\f"})
    if (reader_.skip(space)) return true;
  if (!reader_.skip("#")) return false;
  while (!reader_.is_at_end() && reader_.next() != '\n') {
  }
  return true;
}

/// After a backslash.
void RegexParser::read_escape(Options options) {
  for (const char* const feature : {"X", "y", "Y", "g<", "g'"})
    if (reader_.rest().starts_with(feature)) reader_.refuse("\\" + std::string(feature));
  if (reader_.skip("R")) {
    builder_.end_of_line();
  } else if (reader_.skip("O")) {
    builder_.one_of(CodePoints::all());
  } else if (reader_.skip("N")) {
    builder_.one_of(~CodePoints::one('\n'));
  } else if (const auto set = reader_.escaped_set()) {
    builder_.one_of(*set);
  } else if (!read_place() && !read_reference(options)) {
    builder_.letter(reader_.escaped_character(), options.ignores_case);
  }
}

bool RegexParser::read_place() {
  for (const char* const mark : {"A", "z", "G", "K"})
    if (reader_.skip(mark)) {
      builder_.place("\\" + std::string(mark));
      return true;
    }
  if (reader_.skip("Z"))
    builder_.place("(?=", CodePoints::one('\n'), "?\\z)");
  else if (reader_.skip("b"))
    builder_.word_boundary(true);
  else if (reader_.skip("B"))
    builder_.word_boundary(false);
  else
    return false;
  return true;
}

/// \1, \k<1>, \k<name>. A number above 9 without such a group before it is not a reference.
bool RegexParser::read_reference(Options options) {
  if (reader_.rest().starts_with("k<") || reader_.rest().starts_with("k'")) {
    read_named_reference(options);
    return true;
  }
  const std::string_view rest = reader_.rest();
  if (rest.empty() || rest.front() < '1' || rest.front() > '9') return false;
  std::size_t group = 0;
  const char* const begin = rest.data();
  const auto [end, error] = std::from_chars(begin, begin + rest.size(), group);
  if (error != std::errc{} || (group > 9 && group > groups_)) return false;
  reader_.advance(static_cast<std::size_t>(end - begin));
  has_numbers_ = true;
  refer_to(group, options);
  return true;
}

void RegexParser::read_named_reference(Options options) {
  const std::string_view rest = reader_.rest();
  const std::size_t size = rest.substr(2).find(rest[1] == '<' ? '>' : '\'');
  if (size == std::string_view::npos) reader_.reject("a name without its end");
  const std::string name(rest.substr(2, size));
  reader_.advance(size + 3);
  if (const auto found = names_.find(name); found != names_.end() && found->second != 0) {
    refer_to(found->second, options);
    return;
  }
  std::size_t number = 0;
  const char* const last = name.data() + name.size();
  if (std::from_chars(name.data(), last, number).ptr != last || number == 0)
    reader_.refuse("\\k<" + name + ">");
  has_numbers_ = true;
  refer_to(number, options);
}

void RegexParser::refer_to(std::size_t group, Options options) {
  if (options.ignores_case) reader_.refuse("a reference that ignores case");
  builder_.reference(group);
}

void RegexParser::check_references(const RegexParts& parts) const {
  if (has_numbers_ && parts.has_names)
    reader_.reject("a reference by number beside groups with names");
  for (const RegexParts::Piece& piece : parts.pieces)
    if (piece.kind == RegexParts::Piece::Kind::reference &&
        piece.number > (parts.has_names ? named_groups_ : groups_))
      reader_.reject("a reference to a group that there is not");
}

/// After "(". Returns false if it set options for all that is left, which was read then.
bool RegexParser::read_group(Options options, int depth) {
  for (const char* const feature : {"*", "?~", "?{", "?("})
    if (reader_.rest().starts_with(feature)) reader_.refuse("(" + std::string(feature));
  if (reader_.skip("?=")) {
    builder_.open(OpenGroup::Kind::look_ahead, "(?=");
  } else if (reader_.skip("?!")) {
    builder_.open(OpenGroup::Kind::look_ahead, "(?!");
  } else if (reader_.skip("?<=")) {
    builder_.open(OpenGroup::Kind::look_behind, "(?<=");
  } else if (reader_.skip("?<!")) {
    builder_.open(OpenGroup::Kind::look_behind, "(?<!");
  } else if (reader_.skip("?:")) {
    builder_.open(OpenGroup::Kind::plain, "(?:");
  } else if (reader_.skip("?>")) {
    builder_.open(OpenGroup::Kind::kept, "(?>");
  } else if (reader_.skip("?<")) {
    read_name(">");
  } else if (reader_.skip("?'")) {
    read_name("'");
  } else if (reader_.skip("?")) {
    return read_options(options, depth);
  } else {
    ++groups_;
    builder_.open_capturing(false);
  }
  alternatives(options, depth + 1);
  if (!reader_.skip(")")) reader_.reject("a ( without )");
  builder_.close();
  return true;
}

/// After "(?". Reads what the options apply to: for (?i:...) up to its ")", and for (?i) the rest
/// of the group around it. Returns whether it was the first.
bool RegexParser::read_options(Options options, int depth) {
  bool is_on = true;
  while (!reader_.is_at_end()) {
    const char32_t option = reader_.next();
    if (option == ':' || option == ')') {
      builder_.open(OpenGroup::Kind::other, "(?:");
      alternatives(options, depth + 1);
      if (option == ':' && !reader_.skip(")")) break;
      builder_.close();
      return option == ':';
    }
    if (option == '-')
      is_on = false;
    else if (option == 'i')
      options.ignores_case = is_on;
    else if (option == 'm')
      options.dot_is_any = is_on;
    else if (option == 'x')
      options.has_spaces = is_on;
    else
      reader_.refuse("options other than i, m and x");
  }
  reader_.reject("a ( without )");
}

void RegexParser::read_name(std::string_view end) {
  const std::size_t size = reader_.rest().find(end);
  if (size == std::string_view::npos || size == 0) reader_.reject("a group without a name");
  const std::string name(reader_.rest().substr(0, size));
  reader_.advance(size + 1);
  const auto [found, is_new] = names_.emplace(name, ++named_groups_);
  if (!is_new) found->second = 0;
  builder_.open_capturing(true);
}

/// Returns whether there was a quantifier. A brace that is not one is a letter.
bool RegexParser::read_repeat() {
  const char first = reader_.rest().front();
  if (first != '*' && first != '+' && first != '?') return read_interval();
  std::string repeat(1, first);
  reader_.next();
  RepeatBounds bounds;
  if (first == '+') bounds.least = 1;
  if (first == '?') bounds.most = 1;
  bounds.is_lazy = reader_.skip("?");
  bounds.is_kept = !bounds.is_lazy && reader_.skip("+");
  if (bounds.is_lazy) repeat += '?';
  if (bounds.is_kept) repeat += '+';
  builder_.repeat(std::move(repeat), bounds);
  return true;
}

/// {n}, {n,}, {,m} and {n,m}, in PCRE2's syntax: after {n} a ? does not make it reluctant, a +
/// after a brace repeats it again, and {m,n} with the larger first is possessive.
bool RegexParser::read_interval() {
  constexpr std::size_t most_digits = 9;
  if (!reader_.rest().starts_with("{")) return false;
  RegexReader ahead = reader_;
  ahead.advance(1);
  const std::string least = ahead.digits(most_digits, 10);
  const std::size_t from = least.empty() ? 0 : std::stoul(least);
  if (!least.empty() && ahead.skip("}")) {
    reader_ = ahead;
    builder_.repeat("{" + least + "}", {.least = from, .most = from});
    return true;
  }
  if (!ahead.skip(",")) return false;
  const std::string most = ahead.digits(most_digits, 10);
  if (!ahead.skip("}") || (least.empty() && most.empty())) return false;
  reader_ = ahead;
  RepeatBounds bounds{.least = from};
  if (!most.empty()) bounds.most = std::stoul(most);
  if (from > bounds.most) {
    std::swap(bounds.least, bounds.most);
    bounds.is_kept = true;
    builder_.repeat("{" + most + "," + least + "}+", bounds);
  } else {
    std::string words = "{" + std::to_string(from) + "," + most + "}";
    bounds.is_lazy = reader_.skip("?");
    if (bounds.is_lazy) words += '?';
    builder_.repeat(std::move(words), bounds);
  }
  return true;
}

}  // namespace

RegexParts parse_regex(std::string_view pattern, const std::string& what) {
  return RegexParser(pattern, what).parse();
}

}  // namespace accrue::data
