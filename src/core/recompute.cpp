#include "accrue/core/recompute.h"

#include <string>

#include "accrue/core/error.h"

namespace accrue {

std::string_view to_string(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
  }
  return "none";
}

Recompute parse_recompute(std::string_view text, std::string_view what) {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
    if (text == to_string(recompute)) return recompute;
  throw usage_error(what, "none, selective or full", std::string(text), "\"full\"");
}

}  // namespace accrue
