#include "cli/help/error_page.h"

#include <string_view>

#include "cli/help/wrapped_text.h"

namespace accrue::cli {
namespace {

/// A part of the error behind its name, its further lines below the first.
std::string part(std::string_view name, const std::string& text, std::size_t width) {
  constexpr std::size_t column = 12;
  std::string head = "  " + std::string(name);
  head.resize(column, ' ');
  const std::string lines = wrapped(text, width, column);
  return lines.empty() ? "" : head + lines.substr(column);
}

}  // namespace

std::string error_page(const Error& error, std::size_t width) {
  constexpr std::string_view word = "error: ";
  const std::string first = wrapped(error.operation(), width, word.size());
  std::string page = std::string(word) + (first.empty() ? "\n" : first.substr(word.size()));
  page += part("expected", error.expected(), width);
  page += part("received", error.received(), width);
  return page + part("try", error.suggestion(), width);
}

}  // namespace accrue::cli
