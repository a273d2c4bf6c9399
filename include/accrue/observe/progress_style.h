#pragma once

#include "accrue/core/enum_words.h"

namespace accrue::observe {

enum class ProgressStyle {
  off,
  lines,  ///< one line from time to time, for logs
  bar,    ///< one line that is redrawn, for terminals
  live,   ///< several redrawn lines below scrolling ones, for terminals
};
/// The words of observe.progress.
inline constexpr auto progress_style_words =
    enum_words<ProgressStyle>({{ProgressStyle::live, "live"},
                               {ProgressStyle::bar, "bar"},
                               {ProgressStyle::lines, "lines"},
                               {ProgressStyle::off, "off"}});

}  // namespace accrue::observe
