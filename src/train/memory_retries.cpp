#include "memory_retries.h"

#include <c10/util/Exception.h>

#include <new>

#include "accrue/core/cause.h"
#include "accrue/core/error.h"

namespace accrue::train {

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
}

memory::Recovery::Decision MemoryRetries::failed(const std::string& what, std::int64_t samples,
                                                 const std::exception& error) {
  return decide(failures_, what, samples, error);
}

memory::Recovery::Decision MemoryRetries::window_failed(std::int64_t window, std::int64_t samples,
                                                        const std::exception& error) {
  return decide(restarts_, "window " + std::to_string(window), samples, error);
}

memory::Recovery::Decision MemoryRetries::decide(std::int64_t& failures, const std::string& what,
                                                 std::int64_t samples,
                                                 const std::exception& error) {
  using Action = memory::Recovery::Action;
  ++count_;
  memory::Recovery::Decision decision = recovery_->failed(samples, ++failures);
  if (decision.action == Action::give_up)
    throw Error(Error::Kind::refused, "run " + what, "memory for it",
                "none: " + decision.reason + " (" + cause_of(error) + ")",
                advice_ ? advice_() : "a larger memory.budget, or a smaller model");
  if (decision.action == Action::split) failures = 0;
  if (tell_) tell_(what + " ran out of memory: " + decision.reason + " (" + cause_of(error) + ")");
  return decision;
}

}  // namespace accrue::train
