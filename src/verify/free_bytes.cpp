#include "verify/free_bytes.h"

#include <algorithm>
#include <optional>

#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"

namespace accrue::proof {

std::int64_t free_bytes() {
  const std::int64_t machine = memory::available_bytes();
  const std::optional<std::int64_t> budget = memory::tensor_budget();
  if (!budget) return machine;
  return std::min(machine, std::max<std::int64_t>(0, *budget - memory::usage().live));
}

}  // namespace accrue::proof
