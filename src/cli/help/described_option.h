#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace accrue::cli {

/// An option or a positional argument, for help, manual pages and completions.
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
