#include "cli/arguments/typed_keys.h"

#include <cctype>
#include <cstddef>
#include <string>
#include <utility>

namespace accrue::cli {
namespace {

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether the `size` bytes at `at` are a word, and no part of a longer key, path or option.
bool is_whole_word(const std::string& text, std::size_t at, std::size_t size) {
  constexpr std::string_view joins = ".-/";
  if (at > 0 && (is_of_word(text[at - 1]) || joins.find(text[at - 1]) != joins.npos)) return false;
  const std::size_t end = at + size;
  if (end == text.size()) return true;
  const bool is_joined =
      joins.find(text[end]) != joins.npos && end + 1 < text.size() && is_of_word(text[end + 1]);
  return !is_of_word(text[end]) && !is_joined;
}

/// Removes the quotes of the value that begins at `at`, and of others in a list after it: `"jsonl"`
/// and `"jsonl" or "chat"`. Returns the end of the list.
std::size_t unquote_values(std::string& text, std::size_t at) {
  for (;;) {
    const std::size_t close = text.find('"', at + 1);
    if (close == std::string::npos) return at;
    text.erase(close, 1);
    text.erase(at, 1);
    at = close - 1;
    const std::string_view rest = std::string_view(text).substr(at);
    const std::size_t gap = rest.starts_with(" or \"") ? 4 : rest.starts_with(", \"") ? 2 : 0;
    if (gap == 0) return at;
    at += gap;
  }
}

std::string with_key_typed(std::string text, const TypedKey& key) {
  constexpr std::string_view assignment = " = \"";
  const bool is_override = key.typed.ends_with('=');
  for (std::size_t at = text.find(key.key); at != std::string::npos; at = text.find(key.key, at)) {
    if (!is_whole_word(text, at, key.key.size())) {
      at += key.key.size();
      continue;
    }
    text.replace(at, key.key.size(), key.typed);
    at += key.typed.size();
    const bool has_value = std::string_view(text).substr(at).starts_with(assignment);
    if (!has_value) {
      if (is_override) text.erase(--at, 1);
      continue;
    }
    text.replace(at, assignment.size(), is_override ? "\"" : " \"");
    at = unquote_values(text, is_override ? at : at + 1);
  }
  return text;
}

}  // namespace

Error in_typed_words(const Error& error, std::span<const TypedKey> keys,
                     const std::string& command) {
  const auto typed = [keys](std::string text) {
    for (const TypedKey& key : keys) text = with_key_typed(std::move(text), key);
    return text;
  };
  std::string operation = typed(error.operation());
  if (operation.starts_with("--")) operation = command + " " + operation;
  return {error.kind(), operation, typed(error.expected()), typed(error.received()),
          typed(error.suggestion())};
}

}  // namespace accrue::cli
