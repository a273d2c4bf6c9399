#pragma once

#include <string_view>

namespace accrue::observe::web {

/// The files of report/web and of uPlot, as the build found them (web_assets.cmake).
extern const std::string_view page_template, style, script, uplot_style, uplot_script;

}  // namespace accrue::observe::web
