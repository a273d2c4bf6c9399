#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace accrue::cli {

/// `text` in lines of at most `width` characters, each after `indent` spaces. A longer word gets
/// its own line. Lines of `text` that begin with a space stay as they are (examples), others are
/// joined to paragraphs, which an empty line separates. Ends with a line break unless empty.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent = 0);

/// `head`, and `text` in lines that begin at `column`: the first one next to the head if that
/// leaves two spaces, else below it.
std::string hanging(const std::string& head, std::string_view text, std::size_t column,
                    std::size_t width);

}  // namespace accrue::cli
