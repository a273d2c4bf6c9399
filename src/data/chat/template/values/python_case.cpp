#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/uchar.h>
#include <unicode/ustring.h>

#include <array>

#include "core/utf8.h"
#include "data/chat/template/values/python_text.h"
#include "data/chat/template/values/template_work.h"

namespace accrue::data::jinja {
namespace {

using Mapping8 = void (*)(const char*, std::uint32_t, icu::StringPiece, icu::ByteSink&, icu::Edits*,
                          UErrorCode&);

std::string case_mapped(std::string_view text, Mapping8 map) {
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode status = U_ZERO_ERROR;
  map("", 0, icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())), sink, nullptr,
      status);
  if (U_FAILURE(status) != 0)
    throw Failure("a text whose letters can be changed", u_errorName(status));
  return result;
}

/// The title case of the character in `character`: for some a single letter becomes two.
std::string title_of(std::string_view character) {
  const auto code_point = static_cast<UChar32>(code_point_at(character, 0));
  const UChar32 title = u_totitle(code_point);
  if (title == code_point) {  // letters without a title case have their upper case
    const std::string upper = upper_text(character);
    if (upper == character || code_points(upper) < 2) return upper;
    const std::size_t first = utf8_length(upper[0]);
    return upper.substr(0, first) + lower_text(std::string_view(upper).substr(first));
  }
  std::string result;
  append_utf8(static_cast<char32_t>(title), result);
  return result;
}

bool is_cased(char32_t code_point) {
  return u_hasBinaryProperty(static_cast<UChar32>(code_point), UCHAR_CASED) != 0;
}

/// Whether all cased characters have this case, and there is at least one.
bool is_all(std::string_view text, UProperty wanted) {
  bool has_one = false;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    const auto code_point = static_cast<UChar32>(code_point_at(text, at));
    if (u_hasBinaryProperty(code_point, wanted) != 0)
      has_one = true;
    else if (is_cased(static_cast<char32_t>(code_point)))
      return false;
  }
  return has_one;
}

template <class Condition>
bool are_all(std::string_view text, Condition&& is_one) {
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at]))
    if (!is_one(static_cast<UChar32>(code_point_at(text, at)))) return false;
  return !text.empty();
}

bool is_letter(UChar32 code_point) { return (U_GET_GC_MASK(code_point) & U_GC_L_MASK) != 0; }

/// Whether a character has a value as a digit, or a number.
bool is_numeric(UChar32 code_point) {
  return u_getIntPropertyValue(code_point, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

}  // namespace

std::string upper_text(std::string_view text) {
  return case_mapped(text, icu::CaseMap::utf8ToUpper);
}

std::string lower_text(std::string_view text) {
  return case_mapped(text, icu::CaseMap::utf8ToLower);
}

std::string title_text(std::string_view text) {
  std::string result;
  std::size_t word = 0;  // where the run of cased characters began, after its first
  bool is_in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = utf8_length(text[at]);
    const bool cased = is_cased(code_point_at(text, at));
    if (is_in_word && !cased) result += lower_text(text.substr(word, at - word));
    if (!is_in_word) result += cased ? title_of(text.substr(at, size)) : text.substr(at, size);
    if (is_in_word && !cased) result += text.substr(at, size);
    if (cased && !is_in_word) word = at + size;
    is_in_word = cased;
    at += size;
  }
  if (is_in_word) result += lower_text(text.substr(word));
  return result;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return "";
  const std::size_t first = utf8_length(text[0]);
  return title_of(text.substr(0, first)) + lower_text(text.substr(first));
}

bool is_upper_text(std::string_view text) { return is_all(text, UCHAR_UPPERCASE); }
bool is_lower_text(std::string_view text) { return is_all(text, UCHAR_LOWERCASE); }

bool are_digits(std::string_view text) {
  return are_all(text, [](UChar32 code_point) {
    const int type = u_getIntPropertyValue(code_point, UCHAR_NUMERIC_TYPE);
    return type == U_NT_DECIMAL || type == U_NT_DIGIT;
  });
}

bool are_letters(std::string_view text) { return are_all(text, is_letter); }

bool are_letters_or_digits(std::string_view text) {
  return are_all(
      text, [](UChar32 code_point) { return is_letter(code_point) || is_numeric(code_point); });
}

bool is_white_space(std::string_view text) {
  return !text.empty() && white_space_length(text) == text.size();
}

bool is_printable(char32_t code_point) {
  if (code_point == U' ') return true;
  constexpr std::uint32_t hidden = U_GC_C_MASK | U_GC_Z_MASK;
  return (U_GET_GC_MASK(static_cast<UChar32>(code_point)) & hidden) == 0;
}

}  // namespace accrue::data::jinja
