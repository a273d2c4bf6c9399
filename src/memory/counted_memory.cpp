#include "memory/counted_memory.h"

namespace accrue::memory {

void CountedMemory::set_budget(std::optional<std::int64_t>) {
  throw not_installed("set the memory budget");
}

void CountedMemory::leave_outside(std::int64_t) {
  throw not_installed("leave a part of the budget");
}

Error not_installed(const char* operation) {
  return usage_error(operation, "accrue's caching allocator in place", "libtorch's own",
                     "install_caching_allocator() at the start of main");
}

}  // namespace accrue::memory
