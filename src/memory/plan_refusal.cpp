#include "memory/plan_refusal.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/units.h"
#include "accrue/memory/budget.h"
#include "core/words.h"
#include "memory/cost_model.h"

namespace accrue::memory {
namespace {

/// The memory that the smallest trial needs, or a lower bound of it.
struct Need {
  std::int64_t bytes = 0;
  bool exact = false;
  PlanPoint point;
};

Need need_of(const std::vector<Fact>& facts, const PlanQuestion& question) {
  std::optional<Need> least;
  for (const Fact& fact : without_refuted(facts)) {
    const Need need{std::max(fact.measured.peak_bytes, question.resident.total()),
                    fact.measured.fits, fact.point};
    const auto rank = [](const Need& n) { return std::tuple(!n.exact, n.bytes, n.point); };
    if (!least || rank(need) < rank(*least)) least = need;
  }
  return least.value_or(Need{.bytes = question.resident.total()});
}

/// The memory that the refused run would take, as far as it is known.
std::int64_t likely_bytes(const Need& need, const PlanQuestion& question) {
  if (need.exact || question.enough_bytes == 0) return need.bytes;
  return std::max(need.bytes, question.enough_bytes - question.outside_bytes);
}

/// The context at which a sample's memory, which is linear in it, stays within the limit.
std::int64_t fitting_context(std::int64_t bytes, const PlanQuestion& question) {
  const std::int64_t room = question.limit_bytes - question.resident.total();
  const std::int64_t working = bytes - question.resident.total();
  if (question.context == 0 || room <= 0 || working <= room) return 0;
  const double fitting = static_cast<double>(question.context) * static_cast<double>(room) /
                         static_cast<double>(working) * (1 - kPlanMargin);
  constexpr double step = 16;
  return static_cast<std::int64_t>(std::floor(fitting / step) * step);
}

/// The most additional bytes outside tensors, when larger micro-batches have room to be
/// tried.
constexpr std::int64_t kOutsideVaries = std::int64_t{16} << 20;

/// A budget that is enough; 0 if neither a trial nor arithmetic gives one.
std::int64_t enough_budget(const Need& need, const PlanQuestion& question) {
  if (!need.exact)
    return question.enough_bytes > need.bytes + question.outside_bytes ? question.enough_bytes : 0;
  const std::int64_t tensors =
      std::llround(static_cast<double>(need.bytes) * (1 + kPlanMargin)) + 1;
  if (question.stated_bytes == 0) return tensors + question.outside_bytes;
  const std::int64_t outside = question.outside_bytes - reserve_outside(question.stated_bytes);
  return budget_that_leaves(tensors, outside + kOutsideVaries);
}

std::string advice(const Need& need, const PlanQuestion& question) {
  std::vector<std::string> ways;
  if (question.micro_batch && *question.micro_batch > 1) ways.push_back(question.open_micro_batch);
  if (question.more_recomputation) ways.emplace_back("memory.recompute = \"auto\"");
  if (question.may_be_offloaded)
    ways.push_back("memory.offload = \"FOLDER\", which keeps the " +
                   format_bytes(question.resident.total() - question.resident.cuts) +
                   " of state on a disk");
  const std::int64_t likely = likely_bytes(need, question);
  if (const std::int64_t context = fitting_context(likely, question); context > 0)
    ways.push_back("model.context = " + std::to_string(context) + " or less");
  if (question.parameter_count > 0 && likely > 0 && question.limit_bytes > 0) {
    const double share =
        std::min(1.0, static_cast<double>(question.limit_bytes) / static_cast<double>(likely));
    ways.push_back(
        "a model of about " +
        format_count(share * (1 - kPlanMargin) * static_cast<double>(question.parameter_count)) +
        " parameters in place of " + format_count(static_cast<double>(question.parameter_count)));
  }
  const std::int64_t enough = enough_budget(need, question);
  ways.push_back(enough > 0 ? "memory.budget = \"" + format_bytes_rounded_up(enough) +
                                  "\", which is enough"
                            : "a larger memory.budget (accrue plan CONFIG --memory.budget=none "
                              "shows what tensors take)");
  return listed(ways, "or");
}

/// The memory that the budget would have to hold, part by part, for people.
std::string parts(const Need& need, const PlanQuestion& question) {
  std::vector<std::string> words;
  if (question.outside_bytes > 0)
    words.push_back(format_bytes(question.outside_bytes) + " for the program itself");
  const std::int64_t resident = question.resident.total();
  words.push_back(format_bytes(resident) + " for parameters, gradients" +
                  (question.resident.cuts > 0 ? ", a window's activations at its cuts" : "") +
                  " and optimizer state");
  words.push_back(need.bytes > resident
                      ? (need.exact ? "" : "more than ") + format_bytes(need.bytes - resident) +
                            " to compute with"
                      : std::string("what its pass computes with"));
  return listed(words, "and");
}

}  // namespace

Error refusal(const std::vector<Fact>& facts, const PlanQuestion& question) {
  const Need need = need_of(facts, question);
  const std::int64_t missing = std::max<std::int64_t>(0, need.bytes - question.limit_bytes);
  const std::int64_t received = question.stated_bytes > 0
                                    ? question.stated_bytes
                                    : question.limit_bytes + question.outside_bytes;
  return {Error::Kind::refused, "plan the micro-batch",
          "memory for " + describe(need.point) + ": " + parts(need, question),
          "a budget of " + format_bytes(received) + ", in which " +
              (need.exact ? "" : "more than ") + format_bytes(missing) + " are missing" +
              in_brackets(question.place_of_state),
          advice(need, question)};
}

std::string in_brackets(const std::string& place_of_state) {
  return place_of_state.empty() ? "" : " (memory.offload = \"auto\": " + place_of_state + ")";
}

}  // namespace accrue::memory
