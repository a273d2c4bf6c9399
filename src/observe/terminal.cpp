#include "observe/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

namespace accrue::observe {
namespace {

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

bool can_redraw(int descriptor) {
  const std::string_view terminal = variable("TERM");
  return ::isatty(descriptor) == 1 && !terminal.empty() && terminal != "dumb";
}

}  // namespace

ProgressStyle choose_progress_style(std::optional<ProgressStyle> stated, int descriptor) {
  if (stated) return *stated;
  return can_redraw(descriptor) ? ProgressStyle::live : ProgressStyle::lines;
}

TerminalSize terminal_size(int descriptor) {
  winsize told{};
  TerminalSize size;
  if (::ioctl(descriptor, TIOCGWINSZ, &told) != 0) return size;
  if (told.ws_col > 0) size.columns = told.ws_col;
  if (told.ws_row > 0) size.rows = told.ws_row;
  return size;
}

bool locale_is_utf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string locale(variable(name));
    if (locale.empty()) continue;
    std::ranges::transform(locale, locale.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

bool takes_colours(int descriptor) {
  return can_redraw(descriptor) && variable("NO_COLOR").empty();
}

}  // namespace accrue::observe
