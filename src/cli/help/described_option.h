#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace accrue::cli {

/// The group of options that a verb needs, and asks for itself: the parser would name an argument
/// by its option ("--config is required").
inline constexpr const char* needed_by_verb = "Needed";

/// An option or a positional argument, as help, manual pages and completions show it.
struct DescribedOption {
  std::vector<std::string> names;  ///< with dashes, long ones first; for a positional its name
  bool is_positional = false;
  bool is_required = false;
  std::string value;               ///< "N", "[CHECKPOINT]"; empty: the option takes none
  std::string text;                ///< the meaning, with the default
  std::vector<std::string> words;  ///< the values it takes, if these are a few words
};

/// The names of the verbs of `app`, or of the actions of a verb.
std::vector<std::string> names_of_verbs(const CLI::App& app);

/// All options of `app` that help shows, positional ones first. An option that is also a positional
/// (`CONFIG` and `--config`) is listed in both forms.
std::vector<DescribedOption> described_options(const CLI::App& app);

}  // namespace accrue::cli
