#include "accrue/optim/state_precision.h"

#include "accrue/core/error.h"

namespace accrue::optim {
namespace {

constexpr StatePrecision kAll[] = {StatePrecision::fp32, StatePrecision::bf16,
                                   StatePrecision::int8};

}  // namespace

std::string_view to_string(StatePrecision precision) {
  switch (precision) {
    case StatePrecision::bf16:
      return "bf16";
    case StatePrecision::int8:
      return "int8";
    case StatePrecision::fp32:
      break;
  }
  return "fp32";
}

StatePrecision parse_state_precision(std::string_view text) {
  for (const StatePrecision precision : kAll)
    if (text == to_string(precision)) return precision;
  throw usage_error("optimizer state", "fp32, bf16 or int8", text, "fp32");
}

}  // namespace accrue::optim
