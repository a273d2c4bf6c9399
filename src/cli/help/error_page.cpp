#include "cli/help/error_page.h"

#include <string_view>

#include "cli/help/wrapped_text.h"

namespace accrue::cli {
namespace {

/// A part of the error after its name, with its further lines below the first.
std::string part(const std::string& name, const std::string& text, std::size_t width) {
  constexpr std::size_t column = 12;
  return text.empty() ? "" : hanging("  " + name, text, column, width);
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
