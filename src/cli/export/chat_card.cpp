#include <algorithm>
#include <string>

#include "cli/export/card_parts.h"

namespace accrue::cli {
namespace {

/// The delimiter of a block of code: more backticks than the text has in a row.
std::string fence_for(const std::string& text) {
  std::size_t longest = 2, current = 0;
  for (const char sign : text) {
    current = sign == '`' ? current + 1 : 0;
    longest = std::max(longest, current);
  }
  return std::string(longest + 1, '`');
}

std::string code_block(const std::string& language, const std::string& text) {
  const std::string fence = fence_for(text), end = text.ends_with('\n') ? "" : "\n";
  return fence + language + '\n' + text + end + fence + '\n';
}

std::string in_code(const std::string& text) {
  return text.find('`') == text.npos ? '`' + text + '`' : "`` " + text + " ``";
}

}  // namespace

std::string chat_section(const ExportedText& text) {
  if (text.chat_templates.empty()) return {};
  std::string section =
      "\n## Chat\n\nMessages become text by the tokenizer's chat template (`apply_chat_template`)" +
      (text.turn_end.empty() ? std::string()
                             : ", and an answer ends before " + in_code(text.turn_end)) +
      ".\n";
  for (const auto& [name, source] : text.chat_templates)
    section +=
        (text.chat_templates.size() > 1 ? "\nThe template " + in_code(name) + ":\n\n" : "\n") +
        code_block("jinja", source);
  return section;
}

}  // namespace accrue::cli
