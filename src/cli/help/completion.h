#pragma once

#include <CLI/App.hpp>
#include <string>

namespace accrue::cli {

/// Scripts that complete verbs, options, the words that an option takes and the keys of a config in
/// a shell. The program's name is that of `app`.
std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);
std::string fish_completion(const CLI::App& app);

}  // namespace accrue::cli
