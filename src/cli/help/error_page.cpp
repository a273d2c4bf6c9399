#include "cli/help/error_page.h"

#include <string_view>

#include "cli/help/wrapped_text.h"

namespace accrue::cli {
namespace {

constexpr std::string_view red = "\033[1;31m", bold = "\033[1m", plain = "\033[0m";

/// A part of the error behind its name, its further lines below the first.
std::string part(std::string_view name, const std::string& text, std::size_t width,
                 std::string_view colour) {
  constexpr std::size_t column = 12;
  std::string head = "  " + std::string(name);
  head.resize(column, ' ');
  const std::string lines = wrapped(text, width, column);
  if (lines.empty()) return "";
  const std::string body = lines.substr(column);
  return colour.empty() ? head + body : head + std::string(colour) + body + std::string(plain);
}

}  // namespace

std::string error_page(const Error& error, std::size_t width, bool coloured) {
  constexpr std::string_view word = "error: ";
  const std::string first = wrapped(error.operation(), width, word.size()).substr(word.size());
  std::string page = coloured ? std::string(red) + "error:" + std::string(plain) + " " + first
                              : std::string(word) + first;
  page += part("expected", error.expected(), width, "");
  page += part("received", error.received(), width, "");
  return page + part("try", error.suggestion(), width, coloured ? bold : "");
}

}  // namespace accrue::cli
