#pragma once

#include <optional>

#include "accrue/observe/progress_style.h"

namespace accrue::observe {

/// The stated style; if none is stated, a live view on a terminal that can redraw and lines
/// elsewhere.
ProgressStyle choose_progress_style(std::optional<ProgressStyle> stated, int descriptor);

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
/// The present size of the terminal at `descriptor`; 80 x 24 if it is not known.
TerminalSize terminal_size(int descriptor);

/// Whether the environment's locale (LC_ALL, LC_CTYPE, LANG, the first that is set) uses
/// UTF-8.
bool locale_is_utf8();

/// Whether there is a terminal at `descriptor` that may be coloured: NO_COLOR (no-color.org) is not
/// set, and TERM is not "dumb".
bool takes_colours(int descriptor);

}  // namespace accrue::observe
