#include "cli/arguments/command_line.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "cli/help/described_option.h"
#include "cli/output/shell_words.h"
#include "core/joined_words.h"
#include "core/nearest.h"
#include "core/words.h"
#include "train/config/key.h"
#include "train/config/names.h"

namespace accrue::cli {
namespace {

/// A verb of other programs, and the alternative here.
struct OtherVerb {
  std::string_view name, advice;
};

constexpr std::string_view evaluation =
    "accrue eval MODEL --data FILES; during training data.val with run.eval_every";
constexpr std::array<OtherVerb, 12> other_verbs{{
    {"chat", "accrue sample RUN --chat"},
    {"convert", "accrue export RUN --out DIR"},
    {"fit", "accrue train"},
    {"finetune", "accrue train with model.from"},
    {"resume", "accrue train CONFIG --resume"},
    {"evaluate", evaluation},
    {"validate", evaluation},
    {"test", evaluation},
    {"generate", "accrue sample"},
    {"infer", "accrue sample of text, or accrue predict of images"},
    {"benchmark", "accrue bench"},
    {"new", "accrue init"},
}};

/// The one of `names` of which `word` is a misspelling; none if it is far from all.
std::optional<std::string> near_word(const std::string& word,
                                     const std::vector<std::string>& names) {
  constexpr std::size_t length_of_an_edit = 3;
  return nearest_within(word.size() / length_of_an_edit, word, names);
}

/// The suggestion for a `word` that is not in `names`: the one of which it is a misspelling, or any
/// of them.
std::string advice_on_word(const std::string& word, const std::vector<std::string>& names,
                           const std::string& command) {
  const auto near = near_word(word, names);
  return near ? command + " " + *near : command + " --help, which describes each";
}

std::string advice_on_verb(const std::string& word, const std::vector<std::string>& verbs) {
  const auto known = std::find_if(other_verbs.begin(), other_verbs.end(),
                                  [&](const OtherVerb& other) { return other.name == word; });
  if (known != other_verbs.end()) return std::string(known->advice);
  return advice_on_word(word, verbs, "accrue");
}

/// Checks the action of a verb that has actions: it is the word after the verb.
void check_action(const CLI::App& verb, const Arguments& typed) {
  const std::vector<std::string> actions = names_of_verbs(verb);
  if (actions.empty()) return;
  const std::string command = "accrue " + verb.get_name();
  const std::string expected = "one of " + listed(actions, "or") + " after it";
  if (typed.size() < 3)
    throw usage_error(command, expected, "none", command + " " + actions.front() + " --help");
  const std::string& word = typed[2];
  if (word.starts_with("-") || std::ranges::find(actions, word) != actions.end()) return;
  throw usage_error(command, expected, in_quotes(word), advice_on_word(word, actions, command));
}

/// An option of other programs that generate text (transformers, llama.cpp, vLLM), and that of
/// accrue.
struct OtherOption {
  std::string_view name, ours;
};

constexpr std::array<OtherOption, 10> other_options{{
    {"--max-new-tokens", "--tokens"},
    {"--max-tokens", "--tokens"},
    {"--max-length", "--tokens"},
    {"--n-predict", "--tokens"},
    {"--predict", "--tokens"},
    {"-n", "--tokens"},
    {"-p", "--prompt"},
    {"-s", "--seed"},
    {"--temp", "--temperature"},
    {"--repeat-penalty", "--repetition-penalty"},
}};

std::vector<std::string> names_of_options(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const DescribedOption& option : described_options(verb))
    if (!option.is_positional) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

/// The one of the options `known` that `typed` was most likely meant to be, perhaps with
/// underscores instead of accrue's dashes, or in the words of another program; none if it is far
/// from all.
std::optional<std::string> option_meant(const std::string& typed,
                                        const std::vector<std::string>& known) {
  std::string name = typed;
  std::ranges::replace(name, '_', '-');
  const auto other = std::ranges::find(other_options, name, &OtherOption::name);
  const bool has_it =
      other != other_options.end() && std::ranges::find(known, other->ours) != known.end();
  return has_it ? std::string(other->ours) : near_word(name, known);
}

/// The override for what was typed in place of one.
struct OverrideMeant {
  std::string text;
  /// Whether a key without its section was typed ("lr" for optim.lr), and not a misspelt one.
  bool lacks_section = false;
};

/// None if no key of this version is near `name`.
std::optional<OverrideMeant> override_meant(const std::string& name,
                                            const std::optional<std::string>& value) {
  const train::Key* const key = train::nearest_key(name);
  if (key == nullptr || !key->in_this_version) return std::nullopt;
  return OverrideMeant{.text = shell_word("--" + key->name + "=" + value.value_or("VALUE")),
                       .lacks_section = key->name.ends_with("." + train::normalised(name))};
}

template <typename Names>
bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// `next` is the word after the argument, which is its value unless it is also an option.
Error not_an_override(const CLI::App& verb, const std::string& argument,
                      const std::optional<std::string>& next) {
  const std::string operation = "accrue " + verb.get_name() + " " + argument;
  if (argument.starts_with("--") && argument.find('.') != std::string::npos)
    return usage_error(operation, "--section.key=value", "no value after a \"=\"",
                       argument + "=" + next.value_or("VALUE"));
  const std::size_t equals = argument.find('=');
  if (argument.starts_with("-") && equals != std::string::npos && argument.find('.') < equals)
    return usage_error(operation, "--section.key=value", "one dash before the key", "-" + argument);
  const bool is_bare = !argument.starts_with("-") && equals != std::string::npos;
  if (is_bare && argument.find('.') < equals)
    return usage_error(operation, "--section.key=value", "no dashes before the key",
                       "--" + argument);
  const std::string expected = "an option of this verb or --section.key=value";
  std::string suggestion = "accrue " + verb.get_name() + " --help";
  if (is_bare || argument.starts_with("--")) {
    const std::string name = is_bare ? argument.substr(0, equals) : argument.substr(2);
    const auto value = is_bare ? std::optional(argument.substr(equals + 1)) : next;
    if (const auto foreign = train::foreign_key(name, value))
      return usage_error(operation, expected, "a name of " + foreign->users, foreign->advice);
    if (const auto meant = override_meant(name, value)) {
      if (meant->lacks_section)
        return usage_error(operation, expected, "a key without its section", meant->text);
      suggestion = meant->text;
    }
  }
  return usage_error(operation, expected, in_quotes(argument),
                     option_meant(argument, names_of_options(verb)).value_or(suggestion));
}

/// The value that was typed with or behind the word at `index`, as it is typed with `option`; empty
/// if the option takes none, or none was typed.
std::string value_typed(const Arguments& typed, std::size_t index, const std::string& option,
                        const CLI::App& verb) {
  const std::vector<DescribedOption> all = described_options(verb);
  const auto takes_value = [&](const DescribedOption& each) {
    return !each.value.empty() && contains(each.names, option);
  };
  if (std::ranges::none_of(all, takes_value)) return "";
  const std::size_t equals = typed[index].find('=');
  if (equals != std::string::npos) return " " + shell_word(typed[index].substr(equals + 1));
  const bool has_next = index + 1 < typed.size() && !typed[index + 1].starts_with("--");
  return has_next ? " " + shell_word(typed[index + 1]) : "";
}

/// Throws a usage Error for a key without a "=": the next word is then its value, and would
/// otherwise be treated as the config.
void check_overrides(const CLI::App& app, const Arguments& typed) {
  const CLI::App& verb = *app.get_subcommand(typed[1]);
  if (!verb.get_allow_extras()) return;
  const std::vector<std::string> known = names_of_options(verb);
  for (std::size_t i = 2; i < typed.size(); ++i) {
    const std::string& word = typed[i];
    const bool has_form = !word.starts_with("--") || word.find('=') != std::string::npos;
    if (has_form || contains(known, word)) continue;
    const bool has_next = i + 1 < typed.size() && !typed[i + 1].starts_with("--");
    throw not_an_override(verb, word, has_next ? std::optional(typed[i + 1]) : std::nullopt);
  }
}

}  // namespace

CLI::Option* add_config(CLI::App& verb, std::string& file) {
  return verb.add_option("-c,--config,CONFIG", file, "Config file (TOML)")->type_name("FILE");
}

CLI::Option* add_needed_config(CLI::App& verb, std::string& file) {
  return add_config(verb, file)->group(needed_by_verb);
}

void expect_config(const std::string& file) {
  if (file.empty()) throw CLI::RequiredError("CONFIG");
}

std::vector<std::string> take_overrides(const CLI::App& verb) {
  WordsOfVerb words = take_words(verb);
  if (!words.files.empty()) throw not_an_override(verb, words.files.front(), {});
  return std::move(words.overrides);
}

WordsOfVerb take_words(const CLI::App& verb) {
  WordsOfVerb words;
  for (const std::string& argument : verb.remaining()) {
    const bool has_value = argument.find('=') != std::string::npos;
    std::error_code unreadable;
    if (argument.starts_with("--") && has_value)
      words.overrides.push_back(argument.substr(2));
    else if (!argument.starts_with("-") &&
             (!has_value || std::filesystem::exists(argument, unreadable)))
      words.files.push_back(argument);
    else
      throw not_an_override(verb, argument, {});
  }
  return words;
}

Error unknown_option(const CLI::App& app, const Arguments& typed) {
  const CLI::App* verb = app.get_subcommand(typed[1]);
  std::string command = "accrue " + typed[1];
  if (typed.size() > 2 && contains(names_of_verbs(*verb), typed[2])) {
    verb = verb->get_subcommand(typed[2]);
    command += " " + typed[2];
  }
  const std::vector<std::string> known = names_of_options(*verb);
  for (std::size_t i = 2; i < typed.size(); ++i) {
    const std::string name = typed[i].substr(0, typed[i].find('='));
    if (!name.starts_with("-") || contains(known, name)) continue;
    const auto option = option_meant(name, known);
    const std::string advice =
        option ? *option + value_typed(typed, i, *option, *verb) : command + " --help";
    return usage_error(command + " " + name, "an option of this verb", "one that it does not have",
                       advice);
  }
  return usage_error(command, "arguments as its help describes them", "more words than it takes",
                     command + " --help");
}

void check_verb(const CLI::App& app, const Arguments& typed) {
  const std::vector<std::string> verbs = names_of_verbs(app);
  const std::string& word = typed[1];
  if (word.starts_with("-")) {
    const std::vector<std::string> known = names_of_options(app);
    const std::string name = word.substr(0, word.find('='));
    if (contains(known, name)) return;
    throw usage_error("accrue " + name, "a verb, or an option of the command", in_quotes(name),
                      option_meant(name, known).value_or("accrue --help"));
  }
  if (contains(verbs, word)) {
    check_action(*app.get_subcommand(word), typed);
    return check_overrides(app, typed);
  }
  throw usage_error("accrue " + word, "one of the verbs " + joined_words(verbs, ", "),
                    in_quotes(word), advice_on_verb(word, verbs));
}

Arguments with_help_option(const Arguments& typed) {
  if (typed.size() < 2) return {typed.empty() ? "accrue" : typed.front(), "--help"};
  if (typed[1] != "help") return typed;
  Arguments words{typed.front()};
  words.insert(words.end(), typed.begin() + 2, typed.end());
  words.emplace_back("--help");
  return words;
}

}  // namespace accrue::cli
