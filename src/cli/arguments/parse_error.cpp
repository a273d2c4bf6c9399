#include "cli/arguments/parse_error.h"

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/help/described_option.h"
#include "core/nearest.h"
#include "core/words.h"

namespace accrue::cli {
namespace {

/// The verb that was typed, or its action, and the words that name it.
struct TypedVerb {
  const CLI::App* app;
  std::string command;
};

TypedVerb typed_verb(const CLI::App& app, const Arguments& typed, const std::string& program) {
  TypedVerb verb{&app, program};
  for (std::size_t i = 1; i < typed.size(); ++i) {
    const std::vector<std::string> names = names_of_verbs(*verb.app);
    if (std::find(names.begin(), names.end(), typed[i]) == names.end()) break;
    verb.app = verb.app->get_subcommand(typed[i]);
    verb.command += " " + typed[i];
  }
  return verb;
}

/// The verb with all that it needs: "accrue export RUN_DIR --out DIR".
std::string command_in_full(const TypedVerb& verb) {
  std::string text = verb.command;
  for (const DescribedOption& option : described_options(*verb.app)) {
    if (!option.is_required) continue;
    text += " " + option.names.front();
    if (!option.is_positional && !option.value.empty()) text += " " + option.value;
  }
  return text;
}

/// The option of this name, with or without its dashes; none if the verb does not have it.
std::optional<DescribedOption> option_named(const TypedVerb& verb, const std::string& name) {
  for (DescribedOption& option : described_options(*verb.app))
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end())
      return std::move(option);
  return std::nullopt;
}

/// The value that was typed for an option; none if it is not found.
std::optional<std::string> typed_value(const Arguments& typed, const DescribedOption& option) {
  for (const std::string& name : option.names)
    for (std::size_t i = 1; i < typed.size(); ++i) {
      if (typed[i].starts_with(name + "=")) return typed[i].substr(name.size() + 1);
      if (typed[i] == name && i + 1 < typed.size()) return typed[i + 1];
    }
  return std::nullopt;
}

/// The number that help shows as the default; none if it shows no number.
std::optional<std::string> usual_number(const DescribedOption& option) {
  constexpr std::string_view before = "(default: ";
  const std::size_t at = option.text.rfind(before);
  if (at == std::string::npos) return std::nullopt;
  const std::string text = option.text.substr(at + before.size());
  const std::size_t end = text.find_first_not_of("0123456789.");
  if (end == 0 || end == std::string::npos || text[end] != ')') return std::nullopt;
  return text.substr(0, end);
}

/// The parts of "A requires B" or "--out: 1 required DIR missing" before and after `separator`; the
/// second is empty if it does not occur.
struct Halves {
  std::string first, second;
};

Halves halves_of(const std::string& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + separator.size())};
}

Error missing(const TypedVerb& verb, const std::string& message) {
  const std::string name = halves_of(message, " is required").first;
  const auto option = option_named(verb, name);
  const bool has_value = option && !option->is_positional && !option->value.empty();
  return usage_error(verb.command, has_value ? name + " " + option->value : name, "none",
                     command_in_full(verb));
}

/// A value that a validator refuses: a word out of a few, or a number out of a range.
Error refused_value(const TypedVerb& verb, const Arguments& typed, const std::string& message) {
  const auto [name, reason] = halves_of(message, ": ");
  const auto option = option_named(verb, name);
  const auto value = option ? typed_value(typed, *option) : std::nullopt;
  const std::string operation = verb.command + " " + name;
  if (!option || option->words.empty())
    return usage_error(operation, reason, value ? in_quotes(*value) : "another value",
                       verb.command + " --help");
  const std::string word = value.value_or(halves_of(reason, " not in ").first);
  return usage_error(
      operation, listed(option->words, "or"), in_quotes(word),
      (option->is_positional ? verb.command : name) + " " + nearest(word, option->words));
}

/// A value that is not of the option's type: all values with a type besides text are numbers.
Error no_number(const TypedVerb& verb, const Arguments& typed, const std::string& message) {
  const std::string name = halves_of(halves_of(message, "Could not convert: ").second, " = ").first;
  const auto option = option_named(verb, name);
  if (!option)
    return usage_error(verb.command, "options without a value if help shows none",
                       "one with a value", verb.command + " --help");
  const auto value = typed_value(typed, *option);
  const std::string received = value ? in_quotes(*value) : "another value";
  if (option->value.empty())
    return usage_error(verb.command + " " + name, "no value", received, name);
  return usage_error(verb.command + " " + name, "a number", received,
                     name + " " + usual_number(*option).value_or("8"));
}

}  // namespace

CLI::Validator integer_in(std::int64_t least, std::int64_t most) {
  const bool is_open = most == std::numeric_limits<std::int64_t>::max();
  const std::string expected =
      is_open ? "an integer of at least " + std::to_string(least)
              : "an integer from " + std::to_string(least) + " to " + std::to_string(most);
  return {[=](std::string& text) {
            std::int64_t number = 0;
            const char* const end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, number);
            const bool is_in =
                error == std::errc{} && stop == end && number >= least && number <= most;
            return is_in ? std::string() : expected;
          },
          ""};
}

Error usage_error_of(const CLI::ParseError& refusal, const CLI::App& app, const Arguments& typed,
                     const std::string& program) {
  const TypedVerb verb = typed_verb(app, typed, program);
  const std::string message = refusal.what();
  if (dynamic_cast<const CLI::RequiredError*>(&refusal) != nullptr) return missing(verb, message);
  if (dynamic_cast<const CLI::ValidationError*>(&refusal) != nullptr)
    return refused_value(verb, typed, message);
  if (dynamic_cast<const CLI::ConversionError*>(&refusal) != nullptr)
    return no_number(verb, typed, message);
  if (dynamic_cast<const CLI::RequiresError*>(&refusal) != nullptr) {
    const auto [given, needed] = halves_of(message, " requires ");
    return usage_error(verb.command + " " + given, needed + " beside it", "none",
                       "leaving " + given + " out, or adding " + needed);
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&refusal) != nullptr) {
    const auto [given, other] = halves_of(message, " excludes ");
    return usage_error(verb.command, "one of " + given + " and " + other, "both",
                       "leaving one of them out");
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&refusal) != nullptr) {
    const std::string name = halves_of(message, ": ").first;
    const auto option = option_named(verb, name);
    return usage_error(verb.command + " " + name, "a value after it", "none",
                       name + " " + (option ? option->value : "VALUE"));
  }
  return usage_error(verb.command, "arguments as its help describes them", message,
                     verb.command + " --help");
}

}  // namespace accrue::cli
