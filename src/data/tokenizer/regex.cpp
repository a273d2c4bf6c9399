#include "data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>

#include "accrue/core/error.h"
#include "data/tokenizer/json_part.h"

namespace accrue::data {
namespace {

/// Unicode's White_Space, as the inside of a class. PCRE2's own has U+180E besides.
constexpr std::string_view white_space = R"(\t-\r\x{85}\p{Z})";

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// The pattern with classes that Oniguruma and PCRE2 take for different characters written out.
/// Empty where it has one that cannot be written so.
std::optional<std::string> in_words_of_pcre2(std::string_view pattern) {
  std::string translated;
  int classes = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\') {
      if (c == '[') ++classes;
      if (c == ']' && classes > 0) --classes;
      if (classes > 1 || (c == '&' && pattern.substr(i).starts_with("&&") && classes > 0))
        return std::nullopt;  // sets of sets are Oniguruma's alone
      translated += c;
      continue;
    }
    if (++i == pattern.size()) return std::nullopt;
    const char escaped = pattern[i];
    if (escaped == 's') {
      translated += classes > 0 ? std::string(white_space) : '[' + std::string(white_space) + ']';
    } else if (escaped == 'S') {
      if (classes > 0) return std::nullopt;
      translated += "[^" + std::string(white_space) + ']';
    } else if (escaped == 'w' || escaped == 'W' || escaped == 'b' || escaped == 'h') {
      return std::nullopt;
    } else {
      translated += {'\\', escaped};
    }
  }
  return translated;
}

/// So many bytes behind a place are looked at without being counted: more than a word has.
constexpr std::size_t kWindow = 256;
/// What a pattern may look at besides, for each byte of a text and for any text. Patterns of
/// published tokenizers look at each byte a few times, however long its word or blank is.
constexpr std::size_t kForEachByte = 64, kForAnyText = std::size_t{1} << 20;

/// The end of `bytes` behind `from`, or of the character that it would divide.
std::size_t end_of_character(std::string_view text, std::size_t from, std::size_t bytes) {
  if (bytes >= text.size() - from) return text.size();
  std::size_t end = from + bytes;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  return end;
}

Error refusal(const std::string& received) {
  return runtime_error("tokenizer", "a text that its pattern can be matched with", received,
                       "a text of shorter words");
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(const std::string& pattern, const std::string& what) {
  const std::optional<std::string> translated = in_words_of_pcre2(pattern);
  if (!translated)
    throw usage_error(what, "a pattern of characters, \\p{...}, \\s, \\d and groups",
                      "'" + pattern + "'", "token files made with that tokenizer");
  auto compiled = std::make_shared<Code>();
  int error = 0;
  PCRE2_SIZE place = 0;
  compiled->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                    PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr);
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

Regex::Matcher::Matcher(const Regex& regex)
    : code_(regex.code_), data_(std::make_unique<Data>(code_->code)) {}
Regex::Matcher::~Matcher() = default;

/// A partial match is one that would have read behind the window: the next window is larger, so
/// what is found is what the whole text has.
std::optional<Extent> Regex::Matcher::find(std::string_view text, std::size_t from) {
  const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (std::size_t window = kWindow;; window *= 2) {
    const std::size_t end = end_of_character(text, from, window);
    if (window > kWindow) charge(end - from, text.size());
    const std::uint32_t partial = end < text.size() ? PCRE2_PARTIAL_HARD : 0;
    const int found =
        pcre2_match(code_->code, subject, end, from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | partial,
                    data_->match, nullptr);
    if (found >= 0) {
      const PCRE2_SIZE* const places = pcre2_get_ovector_pointer(data_->match);
      return Extent{places[0], places[1]};
    }
    const bool is_none = found == PCRE2_ERROR_NOMATCH;
    if (!is_none && found != PCRE2_ERROR_PARTIAL) throw refusal(message_of(found));
    if (is_none && partial == 0) return std::nullopt;
  }
}

void Regex::Matcher::charge(std::size_t bytes, std::size_t text_bytes) {
  looked_at_ += bytes;
  if (looked_at_ > kForEachByte * text_bytes + kForAnyText)
    throw refusal("one at whose places it looks far ahead, again and again");
}

}  // namespace accrue::data
