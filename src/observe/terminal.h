#pragma once

#include <optional>

#include "accrue/observe/progress_style.h"

namespace accrue::observe {

/// The style that was stated; if none was, a live view on a terminal that can redraw and lines
/// elsewhere.
ProgressStyle choose_progress_style(std::optional<ProgressStyle> stated, int descriptor);

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
/// Size of the terminal behind `descriptor` as of now; 80 x 24 if it does not tell.
TerminalSize terminal_size(int descriptor);

/// Whether the environment's locale (LC_ALL, LC_CTYPE, LANG, the first that says anything) is one
/// of UTF-8.
bool locale_is_utf8();

/// Whether there is a terminal behind `descriptor` that may be coloured: NO_COLOR (no-color.org)
/// says nothing, and TERM is not "dumb".
bool takes_colours(int descriptor);

}  // namespace accrue::observe
