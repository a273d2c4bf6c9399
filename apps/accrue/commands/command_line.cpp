#include "commands/command_line.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "accrue/core/error.h"
#include "accrue/core/nearest.h"
#include "accrue/train/config.h"

namespace accrue::cli {
namespace {

constexpr std::array<std::string_view, 2> later_verbs{"report", "compare"};
constexpr std::array<std::string_view, 1> later_options{"--repeat"};

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string name_of(const std::string& argument) { return argument.substr(0, argument.find('=')); }

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

template <typename Names>
bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Error not_an_override(const CLI::App& verb, const std::string& argument) {
  const std::string operation = "accrue " + verb.get_name() + " " + argument;
  if (contains(later_options, name_of(argument)))
    return usage_error(operation, "an option of this version",
                       quoted(name_of(argument)) + ", which is not in this version",
                       "accrue " + verb.get_name() + " --help");
  if (argument.starts_with("--") && argument.find('.') != std::string::npos)
    return usage_error(operation, "--section.key=value", "no value", argument + "=VALUE");
  if (argument.starts_with("--"))
    if (const auto foreign = train::foreign_key(argument.substr(2)))
      return usage_error(operation, "an option of this verb or --section.key=value",
                         "a name of " + foreign->users, foreign->advice);
  return usage_error(operation, "an option of this verb or --section.key=value", quoted(argument),
                     "accrue " + verb.get_name() + " --help");
}

}  // namespace

std::vector<std::string> take_overrides(const CLI::App& verb) {
  std::vector<std::string> overrides;
  for (const std::string& argument : verb.remaining()) {
    const bool has_form = argument.starts_with("--") && argument.find('=') != std::string::npos &&
                          !contains(later_options, name_of(argument));
    if (!has_form) throw not_an_override(verb, argument);
    overrides.push_back(argument.substr(2));
  }
  return overrides;
}

void check_verb(const CLI::App& app, const Arguments& typed) {
  const std::vector<std::string> verbs = verbs_of(app);
  if (typed.size() < 2)
    throw usage_error("accrue", "one of the verbs " + joined(verbs), "none", "accrue --help");
  const std::string& word = typed[1];
  if (word.starts_with("-") || contains(verbs, word)) return;
  if (contains(later_verbs, word))
    throw usage_error("accrue " + word, "one of the verbs " + joined(verbs),
                      quoted(word) + ", which is not in this version", "accrue --help");
  throw usage_error("accrue " + word, "one of the verbs " + joined(verbs), quoted(word),
                    "accrue " + nearest(word, verbs));
}

}  // namespace accrue::cli
