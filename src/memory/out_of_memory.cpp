#include "memory/out_of_memory.h"

#include <c10/util/Exception.h>

#include <new>

#include "accrue/core/units.h"
#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "core/cause.h"

namespace accrue::memory {

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
}

std::int64_t least_need(const std::exception& error) {
  const std::optional<std::int64_t> limit = last_refusing_budget();
  const bool refused = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr;
  return limit && refused ? *limit + last_missing_bytes() : 0;
}

std::string why_out_of_memory(const std::exception& error) {
  if (least_need(error) == 0) return cause_of(error);
  return "at least " + format_bytes(last_missing_bytes()) + " more than the " +
         format_bytes(*last_refusing_budget()) + " that the budget of " +
         format_bytes(budget().value_or(0)) + " leaves to tensors";
}

std::string larger_budget(std::optional<std::int64_t> enough) {
  if (!enough)
    return "a larger memory.budget (accrue plan CONFIG --memory.budget=none shows what tensors "
           "take)";
  return "memory.budget = \"" + format_bytes_rounded_up(*enough) + "\", which is enough";
}

}  // namespace accrue::memory
