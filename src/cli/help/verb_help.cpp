#include "cli/help/verb_help.h"

namespace accrue::cli {
namespace {

constexpr std::string_view before_examples = "\n\nExamples:\n";

}  // namespace

void set_help(CLI::App& verb, const VerbHelp& help) {
  verb.group(std::string(help.heading));
  std::string footer = help.text + std::string(before_examples);
  for (const std::string& example : help.examples) footer += "  " + example + "\n";
  verb.footer(footer);
}

HelpParts help_parts(const CLI::App& verb) {
  const std::string footer = verb.get_footer();
  const std::size_t at = footer.find(before_examples);
  if (at == std::string::npos) return {.text = footer, .examples = {}};
  return {.text = footer.substr(0, at), .examples = footer.substr(at + before_examples.size())};
}

}  // namespace accrue::cli
