#include "data/json/line_problem.h"

#include "core/utf8.h"

namespace accrue::data {
namespace {

/// nlohmann's message without its own name, the line (always 1 here) and the text it read last,
/// which may be megabytes.
std::string reason_of(const std::string& message) {
  constexpr std::size_t longest = 160;
  std::size_t begin = message.find("] ");
  begin = begin == message.npos ? 0 : begin + 2;
  if (const auto column = message.find("column "); column != message.npos) begin = column;
  std::string reason = message.substr(begin, message.find("; last read", begin) - begin);
  if (reason.size() > longest) reason = reason.substr(0, longest) + "...";
  for (char& c : reason)
    if (c < ' ' || c > '~') c = '?';
  return reason;
}

bool is_too_large(const std::string& message) {
  return message.find("number overflow") != message.npos;
}

bool is_of_a_value(const std::string& message) {
  return is_too_large(message) || message.find("while parsing value") != message.npos;
}

/// The word that is not JSON; empty if something else is wrong.
StrayWord word_at(std::string_view line, std::size_t column, const std::string& message) {
  const bool is_word = message.find("invalid literal") != message.npos ||
                       message.find("invalid number") != message.npos;
  if (!is_word || column < 2) return {};
  const StrayWord word = stray_word(line, column);
  return word.text.empty() ? stray_word(line, column - 1) : word;  // of which it may be the end
}

}  // namespace

LineProblem at_place(LineProblem problem, std::string_view line, const LinePlace& place) {
  if (const auto column = column_of(line, place))
    problem.received += " (column " + std::to_string(*column) + ")";
  return problem;
}

LineProblem not_json(std::string_view line, std::size_t column, const std::string& message,
                     const std::optional<LinePlace>& place) {
  LineProblem problem{"a JSON object", reason_of(message), "an object per line, in UTF-8"};
  if (!place || !is_of_a_value(message)) return problem;
  const StrayWord word = word_at(line, column, message);
  if (word.text.empty()) {
    problem.received += ", in \"" + shortened(place->key) + '"';
    return problem;
  }
  problem.received = subject_of(*place) + shortened(word.text) + ", which is not JSON (column " +
                     std::to_string(word.column) + ")";
  problem.suggestion = "a value that JSON has, or leaving the line out";
  return problem;
}

std::string subject_of(const LinePlace& place) {
  return '"' + shortened(place.key) + (place.element || place.is_within ? "\" holds " : "\" is ");
}

std::string shortened(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return std::string(text);
  const std::string_view begin = text.substr(0, longest);
  return std::string(begin.substr(0, valid_utf8_prefix(begin))) + "...";
}

}  // namespace accrue::data
