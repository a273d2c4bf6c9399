#include "data/tokenizer/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <utility>

#include "accrue/core/error.h"
#include "core/utf8.h"
#include "data/json/json_part.h"
#include "data/tokenizer/regex/alphabet.h"
#include "data/tokenizer/regex/regex_parser.h"
#include "data/tokenizer/regex/regex_words.h"

namespace accrue::data {
namespace {

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// This many bytes after a position are read without being counted: more than a word has.
constexpr std::size_t kWindow = 256;
/// How much more a pattern may read, for each byte of a text and for any text. Patterns of
/// published tokenizers read each byte a few times, however long its word or blank is.
constexpr std::size_t kForEachByte = 64, kForAnyText = std::size_t{1} << 20;

/// Two optimizations of PCRE2 10.42 miss matches. Its start optimization does so when a group has
/// alternatives: (?:ab|)a*a finds nothing in "ab". Making repeats possessive does so when a group
/// keeps what it has matched: b?(?>(?:aa)?)b finds nothing in "b".
std::uint32_t options_of(const RegexParts& parts) {
  if (parts.has_kept_groups) return PCRE2_NO_START_OPTIMIZE | PCRE2_NO_AUTO_POSSESS;
  return parts.has_inner_alternatives ? PCRE2_NO_START_OPTIMIZE : 0;
}

Error refusal(const std::string& received) {
  return runtime_error("tokenizer", "a text that its pattern can be matched with", received,
                       "a text of shorter words");
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  /// None: PCRE2 matches UTF-8. That is so for patterns that refer to a group's match, which kinds
  /// cannot express, and for those with very many characters.
  std::optional<Alphabet> alphabet;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(const std::string& pattern, const std::string& what) {
  const RegexParts parts = parse_regex(pattern, what);
  auto compiled = std::make_shared<Code>();
  if (!parts.has_references) compiled->alphabet = Alphabet::of(parts.sets);
  const std::string words =
      words_of_pcre2(parts, compiled->alphabet ? &*compiled->alphabet : nullptr);
  int error = 0;
  PCRE2_SIZE place = 0;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(words.data()), words.size(),
                                 options_of(parts) | (compiled->alphabet ? 0U : PCRE2_UTF), &error,
                                 &place, nullptr);
  if (compiled->code == nullptr)
    throw usage_error(what, "a regular expression", "'" + pattern + "' (" + message_of(error) + ")",
                      whole_tokenizer_file);
  // Without it matching is slower.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  code_ = std::move(compiled);
}

struct Regex::Matcher::Data {
  pcre2_match_data* match = nullptr;
  explicit Data(const pcre2_code* code)
      : match(pcre2_match_data_create_from_pattern(code, nullptr)) {
    if (match == nullptr) throw std::bad_alloc();
  }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;
  ~Data() { pcre2_match_data_free(match); }
};

Regex::Matcher::Matcher(const Regex& regex, std::string_view text)
    : code_(regex.code_),
      data_(std::make_unique<Data>(code_->code)),
      text_(text),
      kinds_(code_->alphabet ? code_->alphabet->kinds_of(text) : std::string()),
      seen_(code_->alphabet ? std::string_view(kinds_) : text) {}
Regex::Matcher::~Matcher() = default;

std::optional<Extent> Regex::Matcher::next() {
  while (from_ <= seen_.size()) {
    const std::optional<Extent> found = find(from_);
    if (!found) break;
    if (found->size() == 0 && found->end == end_) {
      from_ = found->end < seen_.size() ? next_character(found->end) : seen_.size() + 1;
      continue;
    }
    from_ = found->end;
    end_ = found->end;
    const std::size_t begin = place_in_text(found->begin);
    return Extent{begin, place_in_text(found->end)};
  }
  from_ = seen_.size() + 1;
  return std::nullopt;
}

/// A partial match is one that would have read beyond the window: the next window is larger, so the
/// result is that of the whole text.
std::optional<Extent> Regex::Matcher::find(std::size_t from) {
  for (std::size_t window = kWindow;; window *= 2) {
    const bool is_all = window >= seen_.size() - from;
    const std::size_t end = is_all ? seen_.size() : next_character(from + window - 1);
    if (window > kWindow) charge(end - from);
    const bool is_partial = end < seen_.size();
    const int found = match(from, end, is_partial ? PCRE2_PARTIAL_HARD : 0);
    if (found >= 0) {
      const PCRE2_SIZE* const places = pcre2_get_ovector_pointer(data_->match);
      // An empty match at the window's end may depend on what follows.
      if (!is_partial || places[0] < end) return Extent{places[0], places[1]};
      continue;
    }
    const bool is_none = found == PCRE2_ERROR_NOMATCH;
    if (!is_none && found != PCRE2_ERROR_PARTIAL) throw refusal(message_of(found));
    if (is_none && !is_partial) return std::nullopt;
  }
}

/// Patterns that overflow the machine's stack are matched without it.
int Regex::Matcher::match(std::size_t from, std::size_t end, std::uint32_t partial) {
  const auto* const subject = reinterpret_cast<PCRE2_SPTR>(seen_.data());
  const std::uint32_t options = PCRE2_NO_UTF_CHECK | partial;
  const int found = pcre2_match(code_->code, subject, end, from, options, data_->match, nullptr);
  if (found != PCRE2_ERROR_JIT_STACKLIMIT) return found;
  return pcre2_match(code_->code, subject, end, from, options | PCRE2_NO_JIT, data_->match,
                     nullptr);
}

void Regex::Matcher::charge(std::size_t bytes) {
  looked_at_ += bytes;
  if (looked_at_ > kForEachByte * seen_.size() + kForAnyText)
    throw refusal("one at whose places it looks far ahead, again and again");
}

/// The end of the character at `at`, in what PCRE2 sees.
std::size_t Regex::Matcher::next_character(std::size_t at) const {
  ++at;
  if (code_->alphabet) return at;
  while (at < seen_.size() && (static_cast<unsigned char>(seen_[at]) & 0xC0U) == 0x80U) ++at;
  return at;
}

/// Positions are requested from the left.
std::size_t Regex::Matcher::place_in_text(std::size_t seen) {
  if (seen_.size() == text_.size()) return seen;
  for (; seen_at_ < seen; ++seen_at_) text_at_ += utf8_length(text_[text_at_]);
  return text_at_;
}

}  // namespace accrue::data
