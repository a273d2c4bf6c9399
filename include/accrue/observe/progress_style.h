#pragma once

#include "accrue/core/enum_words.h"

namespace accrue::observe {

enum class ProgressStyle {
  off,
  lines,  ///< a line now and then, for logs
  bar,    ///< one line that is redrawn, for terminals
  live,   ///< several lines that are redrawn below those that scroll, for terminals
};
/// The words of observe.progress.
inline constexpr auto progress_style_words =
    enum_words<ProgressStyle>({{ProgressStyle::live, "live"},
                               {ProgressStyle::bar, "bar"},
                               {ProgressStyle::lines, "lines"},
                               {ProgressStyle::off, "off"}});

}  // namespace accrue::observe
