#pragma once

#include <CLI/App.hpp>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::cli {

/// The headings under which `accrue --help` lists verbs, in this order.
namespace heading {
inline constexpr std::string_view train = "Train", data = "Look at data",
                                  prove = "Prove and measure", runs = "Look at runs",
                                  models = "Use models", reference = "Reference";
}  // namespace heading
inline constexpr std::array headings{heading::train, heading::data,   heading::prove,
                                     heading::runs,  heading::models, heading::reference};

/// A verb's help besides its options.
struct VerbHelp {
  std::string_view heading;
  std::string text;                   ///< paragraphs, separated by an empty line
  std::vector<std::string> examples;  ///< commands, each in one line
};

/// Sets the group and the footer of `verb`, from which help_page() and the manual pages are made.
void set_help(CLI::App& verb, const VerbHelp& help);

/// The text and the examples from set_help(), with each example on its own line. Both are empty for
/// a verb without help.
struct HelpParts {
  std::string text, examples;
};
HelpParts help_parts(const CLI::App& verb);

}  // namespace accrue::cli
