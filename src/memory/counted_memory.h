#pragma once

#include <cstdint>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"

namespace accrue::memory {

/// Memory whose use is counted and limited; accrue/memory/caching_allocator.h describes the calls.
/// In this base class nothing is counted, and no budget can be set.
class CountedMemory {
 public:
  virtual ~CountedMemory() = default;

  virtual BudgetOf budget_of() const { return BudgetOf::tensors; }
  virtual Usage usage() const { return {}; }

  virtual void set_budget(std::optional<std::int64_t> bytes);
  virtual std::optional<std::int64_t> budget() { return std::nullopt; }
  virtual std::optional<std::int64_t> tensor_budget() { return budget(); }
  virtual void leave_outside(std::int64_t bytes);
  virtual std::int64_t left_outside() { return 0; }
  virtual std::int64_t resident_in_tensors() { return 0; }

  virtual std::int64_t last_missing_bytes() const { return 0; }
  virtual std::optional<std::int64_t> last_refusing_budget() const { return std::nullopt; }

  /// The peak starts again and is raised like that of a Level (memory/counters.h).
  virtual Peak peak() const { return {}; }
  virtual Peak restart_peak() { return {}; }
  virtual void raise_peak(const Peak&) {}
};

/// The error that accrue's allocator, which `operation` needs, is missing.
Error not_installed(const char* operation);

}  // namespace accrue::memory
