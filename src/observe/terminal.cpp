#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "accrue/core/error.h"
#include "observe/progress_sink.h"

namespace accrue::observe {
namespace {

bool can_redraw(int descriptor) {
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return ::isatty(descriptor) == 1 && !dumb;
}

}  // namespace

ProgressStyle choose_progress_style(const std::string& setting, int descriptor) {
  if (setting == "off") return ProgressStyle::off;
  if (setting == "lines") return ProgressStyle::lines;
  if (setting == "bar") return ProgressStyle::bar;
  if (setting == "auto") return can_redraw(descriptor) ? ProgressStyle::bar : ProgressStyle::lines;
  throw usage_error("observe.progress", "auto, bar, lines or off", "\"" + setting + "\"", "auto");
}

int terminal_width(int descriptor) {
  constexpr int usual_columns = 80;
  winsize size{};
  const bool told = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return told ? size.ws_col : usual_columns;
}

}  // namespace accrue::observe
