#include "cli/help/verb_help.h"

namespace accrue::cli {

void set_help(CLI::App& verb, const VerbHelp& help) {
  verb.group(std::string(help.heading));
  std::string footer = help.text + "\n\nExamples:";
  for (const std::string& example : help.examples) footer += "\n  " + example;
  verb.footer(footer);
}

}  // namespace accrue::cli
