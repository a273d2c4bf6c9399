#include "cli/output/run_text.h"

#include <cmath>
#include <cstdio>

#include "accrue/core/units.h"

namespace accrue::cli {
namespace {

std::string number_text(const char* format, double number) {
  char text[48];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

}  // namespace

std::string loss_text(double loss) { return number_text("%.5g", loss); }

std::string rate_text(double per_second) {
  if (std::abs(per_second) >= 1000) return format_count(per_second);
  return number_text("%.3g", per_second);
}

}  // namespace accrue::cli
