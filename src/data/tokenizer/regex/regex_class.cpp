#include "data/tokenizer/regex/regex_class.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/unicode/character_properties.h"

namespace accrue::data {
namespace {

constexpr std::array<std::string_view, 14> posix_classes{
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph",
    "lower", "print", "punct", "space", "upper", "word",  "xdigit"};

constexpr int deepest_class = 100;

/// Whether a bracket follows that could close the class: the first one may then be a character.
bool has_closing_bracket(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ']') return true;
    if (text[at] == '\\') ++at;
  }
  return false;
}

/// Reads one class. Whether `a`, `-` and `b` are a range depends on what came before them, as in
/// Oniguruma.
class ClassReader {
 public:
  ClassReader(RegexReader& reader, int depth) : reader_(reader), depth_(depth) {
    if (depth > deepest_class) reader_.refuse("classes within so many others");
  }

  RegexClass read() {
    const bool is_negated = reader_.skip("^");
    if (reader_.rest().starts_with("]")) {
      if (!has_closing_bracket(reader_.rest().substr(1))) reader_.reject("an empty class");
      add(reader_.next());
    }
    while (!reader_.skip("]")) {
      if (reader_.is_at_end()) reader_.reject("a class without ]");
      read_part();
    }
    finish_operand();
    return {*operands_, is_negated};
  }

 private:
  enum class State {
    start,  ///< of an operand
    value,  ///< after a character, or a set
    range,  ///< after a character and a hyphen
    whole,  ///< after a range, or a class
  };

  void read_part() {
    if (reader_.skip("-")) {
      hyphen();
    } else if (reader_.skip("\\")) {
      escaped();
    } else if (reader_.skip("&&")) {
      finish_operand();
    } else if (reader_.skip("[")) {
      if (!posix_class()) inner_class();
    } else {
      add(reader_.next());
    }
  }

  void hyphen() {
    const bool is_last = reader_.rest().starts_with("]") || reader_.rest().starts_with("&&");
    if (state_ != State::value || is_last) {
      add('-');
      return;
    }
    if (!last_) reader_.reject("a range that begins with a set");
    state_ = State::range;
  }

  void escaped() {
    if (auto set = reader_.escaped_set())
      add_set(*set);
    else
      add(reader_.escaped_character());
  }

  bool posix_class() {
    const std::string_view rest = reader_.rest();
    if (!rest.starts_with(":")) return false;
    const std::size_t end = rest.find(":]");
    if (end == std::string_view::npos) return false;
    std::string_view name = rest.substr(1, end - 1);
    const bool is_negated = name.starts_with("^");
    if (is_negated) name.remove_prefix(1);
    for (const std::string_view known : posix_classes) {
      if (name != known) continue;
      const CodePoints set =
          characters_with(known == "punct" ? "posixpunct" : known).value_or(CodePoints());
      reader_.advance(end + 2);
      add_set(is_negated ? ~set : set);
      return true;
    }
    return false;
  }

  /// A range that has not ended is dropped.
  void inner_class() {
    if (state_ == State::value) put_last();
    state_ = State::whole;
    last_.reset();
    put(ClassReader(reader_, depth_ + 1).read().all());
  }

  void add(char32_t c) {
    if (state_ == State::range) {
      if (*last_ > c) reader_.reject("a range from the larger to the smaller");
      ranges_.push_back({*last_, c});
      last_.reset();
      state_ = State::whole;
      return;
    }
    if (state_ == State::value) put_last();
    last_ = c;
    state_ = State::value;
  }

  void add_set(const CodePoints& set) {
    if (state_ == State::range) reader_.reject("a range that ends with a set");
    if (state_ == State::value) put_last();
    last_.reset();
    put(set);
    state_ = State::value;
  }

  void put(const CodePoints& set) {
    ranges_.insert(ranges_.end(), set.ranges().begin(), set.ranges().end());
  }
  void put_last() {
    if (last_) ranges_.push_back({*last_, *last_});
    last_.reset();
  }

  void finish_operand() {
    put_last();
    const CodePoints operand(std::move(ranges_));
    ranges_.clear();
    operands_ = operands_ ? *operands_ & operand : operand;
    state_ = State::start;
  }

  RegexReader& reader_;
  int depth_;
  State state_ = State::start;
  std::optional<char32_t> last_;  ///< may begin a range; none after a set
  std::vector<CodePoints::Range> ranges_;
  std::optional<CodePoints> operands_;  ///< the intersection of those before the last &&
};

}  // namespace

RegexClass read_regex_class(RegexReader& reader) { return ClassReader(reader, 0).read(); }

}  // namespace accrue::data
