#include "cli/help/help_page.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/help/described_option.h"
#include "cli/help/verb_help.h"
#include "cli/help/wrapped_text.h"
#include "core/joined_words.h"

namespace accrue::cli {
namespace {

/// The name of a verb after those of the verbs above it: "accrue checkpoint prune".
std::string full_name(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

constexpr std::size_t widest_column = 24;

/// The column in which the meanings begin, for names of these lengths.
std::size_t column_for(const std::vector<std::string>& names) {
  std::size_t longest = 0;
  constexpr std::size_t around = 4;  // two spaces before a name, two after it
  for (const std::string& name : names)
    if (name.size() + around <= widest_column) longest = std::max(longest, name.size());
  return longest + around;
}

std::string name_of(const DescribedOption& option) {
  const std::string names = joined_words(option.names, ", ");
  return option.value.empty() ? names : names + " " + option.value;
}

std::string options_page(const std::vector<DescribedOption>& options, bool positional,
                         std::size_t width) {
  std::vector<std::string> names;
  for (const DescribedOption& option : options)
    if (option.is_positional == positional) names.push_back(name_of(option));
  if (names.empty()) return "";
  const std::size_t column = column_for(names);
  std::string page = positional ? "\nArguments:\n" : "\nOptions:\n";
  for (const DescribedOption& option : options)
    if (option.is_positional == positional)
      page += hanging("  " + name_of(option), option.text, column, width);
  return page;
}

std::string verbs_under(const std::string& title, const std::vector<const CLI::App*>& verbs,
                        std::size_t column, std::size_t width) {
  std::string page = "\n" + title + ":\n";
  for (const CLI::App* verb : verbs)
    page += hanging("  " + verb->get_name(), verb->get_description(), column, width);
  return page;
}

/// The verbs by their headings; the actions of a verb under one.
std::string verbs_page(const CLI::App& app, std::size_t width) {
  const std::vector<const CLI::App*> all = app.get_subcommands({});
  if (all.empty()) return "";
  const std::size_t column = column_for(names_of_verbs(app));
  if (app.get_parent() != nullptr) return verbs_under("Actions", all, column, width);
  std::string page;
  for (const std::string_view title : headings) {
    std::vector<const CLI::App*> verbs;
    for (const CLI::App* verb : all)
      if (verb->get_group() == title) verbs.push_back(verb);
    if (!verbs.empty()) page += verbs_under(std::string(title), verbs, column, width);
  }
  return page;
}

}  // namespace

std::string usage_of(const CLI::App& app) {
  std::string usage = full_name(app);
  const bool has_verbs = !app.get_subcommands({}).empty();
  if (has_verbs) return usage + (app.get_parent() == nullptr ? " VERB" : " ACTION") + " [OPTIONS]";
  for (const DescribedOption& option : described_options(app)) {
    if (option.is_positional)
      usage += option.is_required ? " " + option.names.front() : " [" + option.names.front() + "]";
    else if (option.is_required)
      usage += " " + option.names.front() + " " + option.value;
  }
  usage += " [OPTIONS]";
  return app.get_allow_extras() ? usage + " [--section.key=value ...]" : usage;
}

std::string help_page(const CLI::App& app, std::size_t width) {
  const std::vector<DescribedOption> options = described_options(app);
  std::string page = wrapped(app.get_description(), width) + "\nUsage: " + usage_of(app) + "\n";
  const HelpParts parts = help_parts(app);
  if (!parts.text.empty()) page += "\n" + wrapped(parts.text, width);
  page += verbs_page(app, width) + options_page(options, true, width) +
          options_page(options, false, width);
  if (app.get_parent() == nullptr)
    page += "\n" + wrapped("`" + app.get_name() + " VERB --help` explains a verb, `" +
                               app.get_name() + " keys PATTERN` the keys of a config.",
                           width);
  if (!parts.examples.empty()) page += "\nExamples:\n" + wrapped(parts.examples, width);
  return page;
}

}  // namespace accrue::cli
