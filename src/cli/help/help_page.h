#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <string>

namespace accrue::cli {

/// The output of `--help` for `app`, the program or one of its verbs, in lines of at most `width`
/// characters (examples stay whole).
std::string help_page(const CLI::App& app, std::size_t width);

/// The syntax of the command: "accrue train [CONFIG] [OPTIONS] [--section.key=value ...]".
std::string usage_of(const CLI::App& app);

}  // namespace accrue::cli
