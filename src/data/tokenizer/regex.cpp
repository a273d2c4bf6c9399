#include "data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

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
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);  // without it matching is slower
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

std::optional<Extent> Regex::Matcher::find(std::string_view text, std::size_t from) {
  const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int found = pcre2_match(code_->code, subject, text.size(), from,
                                PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data_->match, nullptr);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0)
    throw runtime_error("tokenizer", "a text that its pattern can be matched with",
                        message_of(found), "a text of shorter words");
  const PCRE2_SIZE* const places = pcre2_get_ovector_pointer(data_->match);
  return Extent{places[0], places[1]};
}

}  // namespace accrue::data
