#pragma once

#include <cstddef>
#include <string>

#include "accrue/core/error.h"

namespace accrue::cli {

/// An error for a person at a terminal, in lines of at most `width` characters (longer words stay
/// whole):
///
///   error: config key optim.lrr (run.toml:3:1)
///     expected  a known key
///     received  an unknown one
///     try       optim.lr
std::string error_page(const Error& error, std::size_t width);

}  // namespace accrue::cli
