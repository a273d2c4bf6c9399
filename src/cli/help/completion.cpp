#include "cli/help/completion.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/help/described_option.h"
#include "cli/output/shell_words.h"
#include "core/joined_words.h"
#include "train/config/key.h"

namespace accrue::cli {
namespace {

/// "--run.out=" and the others, for verbs that take keys of a config.
std::vector<std::string> overrides_of(const CLI::App& verb) {
  std::vector<std::string> words;
  if (!verb.get_allow_extras()) return words;
  for (const train::Key& key : train::keys())
    if (key.in_this_version) words.push_back("--" + key.name + "=");
  return words;
}

/// The words, except files, that may follow a verb: its actions, what its arguments may be, its
/// options and theirs, and keys.
std::vector<std::string> words_behind(const CLI::App& verb) {
  std::vector<std::string> words = names_of_verbs(verb);
  for (const DescribedOption& option : described_options(verb)) {
    const std::vector<std::string>& offered = option.is_positional ? option.words : option.names;
    words.insert(words.end(), offered.begin(), offered.end());
  }
  for (const CLI::App* action : verb.get_subcommands({}))
    for (std::string& word : words_behind(*action))
      if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  for (std::string& key : overrides_of(verb)) words.push_back(std::move(key));
  return words;
}

std::string separated(const std::vector<std::string>& words) { return joined_words(words, " "); }

std::string names_of(const CLI::App& app) { return separated(names_of_verbs(app)); }

/// The same for fish, which allows backslashes within them.
std::string in_fish_quotes(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text)
    quoted += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return quoted + "'";
}

/// The branches of a `case` over the word before the cursor: the words that an option takes.
/// `respond` is the command that offers them.
std::string value_branches(const CLI::App& verb, const std::string& respond) {
  std::string text;
  for (const DescribedOption& option : described_options(verb)) {
    if (option.is_positional || option.words.empty()) continue;
    text += "        " + joined_words(option.names, "|") + ") " + respond + " " +
            in_single_quotes(separated(option.words)) + "; return;;\n";
  }
  return text;
}

std::string branches_of_verb(const CLI::App& verb, const std::string& respond) {
  const std::string values = value_branches(verb, respond);
  std::string text = "    " + verb.get_name() + ")\n";
  if (!values.empty()) text += "      case \"$before\" in\n" + values + "      esac\n";
  return text + "      offered=" + in_single_quotes(separated(words_behind(verb))) + ";;\n";
}

std::string branches_of_verbs(const CLI::App& app, const std::string& respond) {
  std::string text;
  for (const CLI::App* verb : app.get_subcommands({})) text += branches_of_verb(*verb, respond);
  return text;
}

constexpr std::string_view bash_script =
    R"sh(# Completion of @program@ in bash: eval "$(@program@ completion bash)"
_@program@_offer() {
  COMPREPLY=($(compgen -W "$1" -- "$word"))
}
_@program@() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verbs=@verbs@ offered=
  if [ "$COMP_CWORD" -eq 1 ]; then
    _@program@_offer "$verbs help --help --version"
    return
  fi
  case "${COMP_WORDS[1]}" in
@branches@    help) offered=$verbs;;
  esac
  if [[ $word == -* ]]; then
    _@program@_offer "$offered"
  else
    _@program@_offer "$(printf '%s\n' $offered | grep -v '^-')"
    COMPREPLY+=($(compgen -f -- "$word"))
  fi
  if [ "${#COMPREPLY[@]}" -eq 1 ] && [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o filenames -F _@program@ @program@
)sh";

constexpr std::string_view zsh_script = R"sh(#compdef @program@
# Completion of @program@ in zsh: source <(@program@ completion zsh), or a file _@program@ in $fpath
_@program@_offer() { compadd -- ${=1} }
_@program@() {
  local before=${words[CURRENT-1]} verb=${words[2]} offered=
  local -a verbs
  verbs=(@verbs@)
  if (( CURRENT == 2 )); then
    if [[ ${words[CURRENT]} == -* ]]; then
      compadd -- --help --version
    else
      verbs+=('help:Explain a verb')
      _describe verb verbs
    fi
    return
  fi
  case $verb in
@branches@    help) offered=${verbs%%:*};;
  esac
  if [[ ${words[CURRENT]} == -* ]]; then
    compadd -- ${${=offered}:#*=}
    compadd -S '' -- ${(M)${=offered}:#*=}
  else
    compadd -- ${${=offered}:#-*}
    _files
  fi
}
if [[ $funcstack[1] == _@program@ ]]; then
  _@program@ "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
  compdef _@program@ @program@
fi
)sh";

std::string replaced(std::string text, std::string_view mark, const std::string& by) {
  for (std::size_t at = text.find(mark); at != std::string::npos;
       at = text.find(mark, at + by.size()))
    text.replace(at, mark.size(), by);
  return text;
}

/// A script with the program's data filled in: its name, its verbs and what may follow each.
std::string filled(std::string_view script, const CLI::App& app, const std::string& verbs) {
  std::string text = replaced(std::string(script), "@verbs@", verbs);
  text = replaced(std::move(text), "@branches@",
                  branches_of_verbs(app, "_" + app.get_name() + "_offer"));
  return replaced(std::move(text), "@program@", app.get_name());
}

/// Functions that compare the words before the cursor with a verb, and perhaps its action:
/// __fish_seen_subcommand_from of fish finds a verb anywhere among them.
constexpr std::string_view fish_function = R"sh(function __@program@_at
    set -l typed (commandline -opc)
    set -l last (math (count $argv) + 1)
    test (count $typed) -ge $last; and test "$typed[2..$last]" = "$argv"
end
function __@program@_just_after
    test (count (commandline -opc)) -eq (math (count $argv) + 1); and __@program@_at $argv
end
)sh";

/// The beginnings of lines for fish.
struct FishLines {
  std::string program;

  std::string all() const { return "complete -c " + program; }
  /// With the words `after` behind the program, somewhere before the cursor.
  std::string behind(const std::string& after) const { return with("at", after); }
  /// With them just before it.
  std::string just_behind(const std::string& after) const { return with("just_after", after); }

 private:
  std::string with(const std::string& condition, const std::string& after) const {
    return all() + " -n " + in_fish_quotes("__" + program + "_" + condition + " " + after);
  }
};

std::string option_in_fish(const DescribedOption& option, const std::string& behind) {
  if (option.is_positional)
    return option.words.empty()
               ? ""
               : behind + " -f -a " + in_fish_quotes(separated(option.words)) + "\n";
  std::string text = behind;
  for (const std::string& word : option.names)
    text += word.starts_with("--") ? " -l " + word.substr(2) : " -s " + word.substr(1);
  if (!option.words.empty())
    text += " -x -a " + in_fish_quotes(separated(option.words));
  else if (!option.value.empty())
    text += " -r";
  return text + " -d " + in_fish_quotes(option.text) + "\n";
}

/// The lines for fish with what may follow `verb`, whose words are `typed`, and what may follow
/// each of its actions.
std::string behind_in_fish(const CLI::App& verb, const std::string& typed, const FishLines& lines) {
  std::string text;
  for (const DescribedOption& option : described_options(verb))
    text += option_in_fish(option, lines.behind(typed));
  for (const CLI::App* action : verb.get_subcommands({}))
    text += lines.just_behind(typed) + " -f -a " + action->get_name() + " -d " +
            in_fish_quotes(action->get_description()) + "\n" +
            behind_in_fish(*action, typed + " " + action->get_name(), lines);
  if (!verb.get_allow_extras()) return text;
  for (const train::Key& key : train::keys())
    if (key.in_this_version)
      text +=
          lines.behind(typed) + " -a --" + key.name + "= -d " + in_fish_quotes(key.meaning) + "\n";
  return text;
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  return filled(bash_script, app, in_single_quotes(names_of(app)));
}

std::string zsh_completion(const CLI::App& app) {
  std::string verbs;
  for (const CLI::App* verb : app.get_subcommands({}))
    verbs += in_single_quotes(verb->get_name() + ":" + verb->get_description()) + " ";
  return filled(zsh_script, app, verbs);
}

std::string fish_completion(const CLI::App& app) {
  const FishLines lines{app.get_name()};
  const std::string at_first = lines.all() + " -n 'test (count (commandline -opc)) -eq 1' -f";
  std::string text = "# Completion of " + lines.program + " in fish: " + lines.program +
                     " completion fish | source\n" +
                     replaced(std::string(fish_function), "@program@", lines.program) + at_first +
                     " -a help -d 'Explain a verb'\n" + at_first + " -l help -l version\n" +
                     lines.just_behind("help") + " -f -a " + in_fish_quotes(names_of(app)) + "\n";
  for (const CLI::App* verb : app.get_subcommands({}))
    text += at_first + " -a " + verb->get_name() + " -d " +
            in_fish_quotes(verb->get_description()) + "\n" +
            behind_in_fish(*verb, verb->get_name(), lines);
  return text;
}

}  // namespace accrue::cli
