#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "cli/arguments/commands.h"

namespace accrue::cli {

/// Adds the argument CONFIG, which may also be stated as `-c FILE` or `--config FILE`.
CLI::Option* add_config(CLI::App& verb, std::string& file);

/// The same for a verb that needs it: help shows so, and expect_config() asks for it.
CLI::Option* add_needed_config(CLI::App& verb, std::string& file);

/// Throws what a missing argument throws, unless a config was stated.
void expect_config(const std::string& file);

/// The `--section.key=value` overrides among the words that are not the verb's own options, without
/// their dashes. Throws a usage Error for anything else: a stray word, an option that this verb
/// does not have.
std::vector<std::string> take_overrides(const CLI::App& verb);

/// The words among those that are not the verb's own options: overrides, and names of files.
struct WordsOfVerb {
  std::vector<std::string> overrides;  ///< as from take_overrides()
  std::vector<std::string> files;      ///< neither with dashes nor, unless it exists, with a '='
};
/// The same for a verb that takes more files than CONFIG.
WordsOfVerb take_words(const CLI::App& verb);

/// The error for words that the typed verb does not take: with the most similar of its options, or
/// the one with the same meaning as another program's option.
Error unknown_option(const CLI::App& app, const Arguments& typed);

/// Throws a usage Error unless the first word is one of `app`'s verbs or an option, and the second
/// one of the verb's actions if it has some: a verb of a later version is named as such, a misspelt
/// one is answered with the most similar, one of other programs with the alternative here.
void check_verb(const CLI::App& app, const Arguments& typed);

/// "accrue" and "accrue help" as "accrue --help", "accrue help train" as "accrue train --help";
/// everything else is returned as it was typed.
Arguments with_help_option(const Arguments& typed);

}  // namespace accrue::cli
