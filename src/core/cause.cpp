#include "core/cause.h"

#include <string_view>

namespace accrue {
namespace {

/// Removes the trace before the error of a script.
std::string_view behind_trace(std::string_view text) {
  constexpr std::string_view script_error = "RuntimeError: ";
  const std::size_t found = text.rfind(script_error);
  return found == std::string_view::npos ? text : text.substr(found + script_error.size());
}

/// Removes the place in Gloo's sources at the beginning, as in "[pair.cc:537] ".
std::string_view behind_place(std::string_view text) {
  const std::size_t end = text.find("] ");
  const std::size_t source = text.find(".cc:");
  const bool has_place = text.starts_with('[') && end != std::string_view::npos && source < end;
  return has_place ? text.substr(end + 2) : text;
}

/// Removes the general advice at the end of Gloo's messages.
std::string_view before_advice(std::string_view text) {
  return text.substr(0, text.find(". This is typically caused by"));
}

}  // namespace

std::string cause_of(const std::exception& error) {
  const std::string text = error.what();
  const std::string_view cause = behind_trace(text);
  return std::string(before_advice(behind_place(cause.substr(0, cause.find('\n')))));
}

}  // namespace accrue
