#include "cli/help/manual_page.h"

#include <sstream>

#include "accrue/version.h"
#include "cli/help/described_option.h"
#include "cli/help/help_page.h"
#include "cli/help/verb_help.h"
#include "core/joined_words.h"

namespace accrue::cli {
namespace {

/// A text in roff, where backslashes, dashes and dots at the beginning of a line are special.
std::string in_roff(const std::string& text) {
  std::string roff;
  for (const char c : text) {
    const bool begins_line = roff.empty() || roff.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) roff += "\\&";
    if (c == '\\')
      roff += "\\e";
    else if (c == '-')
      roff += "\\-";
    else
      roff += c;
  }
  return roff;
}

/// Paragraphs as they are; lines that begin with a space are not filled.
std::string body_in_roff(const std::string& text) {
  std::istringstream lines(text);
  std::string roff;
  bool filled = true;
  for (std::string line; std::getline(lines, line);) {
    const bool verbatim = line.starts_with(' ');
    if (verbatim == filled) roff += verbatim ? ".nf\n" : ".fi\n";
    filled = !verbatim;
    roff += line.empty() ? ".PP\n" : in_roff(line) + "\n";
  }
  return filled ? roff : roff + ".fi\n";
}

std::string entries_in_roff(const std::vector<DescribedOption>& options, bool positional) {
  std::string roff;
  for (const DescribedOption& option : options) {
    if (option.is_positional != positional) continue;
    roff += ".TP\n\\fB" + in_roff(joined_words(option.names, ", ")) + "\\fR";
    if (!option.value.empty()) roff += " \\fI" + in_roff(option.value) + "\\fR";
    roff += "\n" + in_roff(option.text) + "\n";
  }
  return roff;
}

std::string section_in_roff(const std::string& title, const std::string& body) {
  return body.empty() ? "" : ".SH " + title + "\n" + body;
}

}  // namespace

std::string page_name(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return parent == nullptr ? app.get_name() : page_name(*parent) + "-" + app.get_name();
}

std::string manual_page(const CLI::App& app) {
  const std::vector<DescribedOption> options = described_options(app);
  const HelpParts parts = help_parts(app);
  std::string verbs;
  for (const CLI::App* verb : app.get_subcommands({}))
    verbs += ".TP\n\\fB" + in_roff(verb->get_name()) + "\\fR\n" + in_roff(verb->get_description()) +
             "\n";
  std::string page = ".TH " + in_roff(page_name(app)) + " 1 \"\" \"" + version + "\"\n";
  page += section_in_roff(
      "NAME", in_roff(page_name(app)) + " \\- " + in_roff(app.get_description()) + "\n");
  page += section_in_roff("SYNOPSIS", in_roff(usage_of(app)) + "\n");
  page += section_in_roff("DESCRIPTION", body_in_roff(parts.text));
  page += section_in_roff("COMMANDS", verbs);
  page += section_in_roff("ARGUMENTS", entries_in_roff(options, true));
  page += section_in_roff("OPTIONS", entries_in_roff(options, false));
  page += section_in_roff("EXAMPLES", body_in_roff(parts.examples));
  return page;
}

}  // namespace accrue::cli
