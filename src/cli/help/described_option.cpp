#include "cli/help/described_option.h"

#include <CLI/Option.hpp>
#include <algorithm>
#include <iterator>
#include <utility>

#include "core/joined_words.h"

namespace accrue::cli {
namespace {

/// "WORD:{hf,gguf,adapter}" has words, "INT:INT in [1 - 1000]" has none.
std::vector<std::string> words_in(const std::string& type) {
  const std::size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  std::vector<std::string> words(1);
  for (const char c : type.substr(open + 1, close - open - 1))
    if (c == ',')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

std::string value_of_option(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  const std::string name = type.substr(0, type.find_first_of(":{ "));
  return name.empty() || name == "TEXT" || name == "INT" || name == "UINT" || name == "FLOAT"
             ? "VALUE"
             : name;
}

std::string text_of_option(const CLI::Option& option, const std::vector<std::string>& words) {
  std::string text = option.get_description();
  const bool names_them = std::ranges::all_of(
      words, [&](const std::string& word) { return text.find(word) != std::string::npos; });
  if (!names_them) {
    text += (text.empty() ? "" : ": ") + joined_words(words, ", ");
  }
  const std::string& usual = option.get_default_str();
  if (!usual.empty()) text += " (default: " + usual + ")";
  return text;
}

}  // namespace

std::vector<DescribedOption> described_options(const CLI::App& app) {
  std::vector<DescribedOption> positional, named;
  for (const CLI::Option* option : app.get_options()) {
    DescribedOption described;
    described.is_required = option->get_required();
    described.words = words_in(option->get_type_name());
    described.text = text_of_option(*option, described.words);
    for (const std::string& name : option->get_lnames()) described.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) described.names.push_back("-" + name);
    if (option->get_positional()) {
      DescribedOption argument = described;
      argument.names = {option->get_name(true)};
      argument.is_positional = true;
      argument.is_required |= option->get_group() == needed_by_verb;
      described.is_required = false;  // it stands once in how a command is typed
      positional.push_back(std::move(argument));
    }
    described.value = value_of_option(*option);
    if (!described.names.empty()) named.push_back(std::move(described));
  }
  std::ranges::move(named, std::back_inserter(positional));
  return positional;
}

std::vector<std::string> names_of_verbs(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return names;
}

}  // namespace accrue::cli
