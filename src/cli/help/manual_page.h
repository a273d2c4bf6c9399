#pragma once

#include <CLI/App.hpp>
#include <string>

namespace accrue::cli {

/// The manual page of `app`, the program or one of its verbs, in man(7)'s macros.
std::string manual_page(const CLI::App& app);

/// The name of that page: "accrue-checkpoint-prune".
std::string page_name(const CLI::App& app);

}  // namespace accrue::cli
