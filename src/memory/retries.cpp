#include "memory/retries.h"

#include <algorithm>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "core/words.h"
#include "memory/out_of_memory.h"

namespace accrue::memory {

void Retries::start() {
  count_ = failures_ = restarts_ = told_ = 0;
  report_ = {};
}

Recovery::Decision Retries::failed(const std::string& what, std::int64_t samples,
                                   const std::exception& error) {
  return decide(failures_, what, samples, error);
}

Recovery::Decision Retries::window_failed(std::int64_t window, std::int64_t samples,
                                          const std::exception& error) {
  return decide(restarts_, "window " + std::to_string(window), samples, error);
}

Recovery::Decision Retries::decide(std::int64_t& failures, const std::string& what,
                                   std::int64_t samples, const std::exception& error) {
  using Action = Recovery::Action;
  ++count_;
  note(what, error);
  Recovery::Decision decision = recovery_->failed(samples, ++failures, least_need(error));
  if (decision.action == Action::give_up)
    throw Error(Error::Kind::refused, "run " + what, "memory for it",
                "none: " + decision.reason + " (" + why_out_of_memory(error) + ")",
                advice_ ? advice_() : "a larger memory.budget, or a smaller model");
  if (decision.action == Action::split) failures = 0;
  report_.to = decision.micro_batch;
  return decision;
}

void Retries::note(const std::string& what, const std::exception& error) {
  if (count_ == 1)
    report_ = {
        .what = what, .cause = why_out_of_memory(error), .from = recovery_->state().micro_batch};
  const std::int64_t need = least_need(error);
  if (need > 0) report_.budget = std::max(report_.budget, need + left_outside());
}

std::optional<std::string> Retries::take_retry_report() {
  if (std::exchange(told_, count_) == count_) return std::nullopt;
  return in_words();
}

std::string Retries::in_words() const {
  const std::string why = " ran out of memory (" + report_.cause + "): ";
  if (report_.from == report_.to)
    return report_.what + why +
           (count_ == 1 ? "it went through when it was run once more"
                        : "the first of " + std::to_string(count_) +
                              " times; each went through when it was run once more");
  const std::string from = std::to_string(report_.from);
  return "micro-batches of " + from + " samples" + why + "from here on they have " +
         std::to_string(report_.to) + ", and the batch stays" + budget_in_words();
}

/// A budget that is enough: the failed allocation only shows what was needed until then, and more
/// may have followed it.
std::string Retries::budget_in_words() const {
  if (report_.budget == 0) return "";
  const std::string from = std::to_string(report_.from);
  const std::optional<std::int64_t> enough = enough_ ? enough_(report_.from) : std::nullopt;
  if (enough && *enough > report_.budget) return "; for " + from + " try " + larger_budget(enough);
  return "; " + from + " take a memory.budget of more than " + format_bytes(report_.budget);
}

}  // namespace accrue::memory
