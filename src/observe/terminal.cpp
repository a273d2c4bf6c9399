#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "observe/progress_sink.h"

namespace accrue::observe {
namespace {

bool can_redraw(int descriptor) {
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return ::isatty(descriptor) == 1 && !dumb;
}

}  // namespace

ProgressStyle choose_progress_style(std::optional<ProgressStyle> stated, int descriptor) {
  if (stated) return *stated;
  return can_redraw(descriptor) ? ProgressStyle::bar : ProgressStyle::lines;
}

int terminal_width(int descriptor) {
  constexpr int usual_columns = 80;
  winsize size{};
  const bool told = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return told ? size.ws_col : usual_columns;
}

}  // namespace accrue::observe
