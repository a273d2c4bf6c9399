#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace accrue::cli {

/// The `--section.key=value` overrides among what the verb's own options left over, without their
/// dashes. Throws a usage Error for anything else: a stray word, an option that this verb does not
/// have.
std::vector<std::string> take_overrides(const CLI::App& verb);

/// Throws a usage Error unless the first word is one of `app`'s verbs or an option, and the second
/// one of the verb's actions where it has some: a verb of a later version is named as such, a
/// misspelt one answered with the nearest, one of other programs with what there is for it.
void check_verb(const CLI::App& app, const Arguments& typed);

/// "accrue help" and "accrue help train" as "accrue --help" and "accrue train --help"; everything
/// else is returned as it was typed.
Arguments with_help_option(const Arguments& typed);

}  // namespace accrue::cli
