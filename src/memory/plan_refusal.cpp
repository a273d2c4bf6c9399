#include "plan_refusal.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "accrue/core/units.h"
#include "cost_model.h"

namespace accrue::memory {
namespace {

/// What the smallest trial needs, or at least needs.
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

std::string in_words(const Need& need) {
  return std::string(need.exact ? "" : "more than ") + format_bytes(need.bytes);
}

std::int64_t with_margin(std::int64_t bytes) {
  return std::llround(static_cast<double>(bytes) * (1 + kPlanMargin));
}

/// The context for which a sample's memory, which is linear in it, stays within the limit.
std::int64_t fitting_context(const Need& need, const PlanQuestion& question) {
  const std::int64_t room = question.limit_bytes - question.resident.total();
  const std::int64_t working = need.bytes - question.resident.total();
  if (question.context == 0 || room <= 0 || working <= room) return 0;
  const double fitting = static_cast<double>(question.context) * static_cast<double>(room) /
                         static_cast<double>(working) * (1 - kPlanMargin);
  constexpr double step = 16;
  return static_cast<std::int64_t>(std::floor(fitting / step) * step);
}

std::string advice(const Need& need, const PlanQuestion& question) {
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (question.micro_batch && *question.micro_batch > 1) add("batch.micro = \"auto\"");
  if (question.more_recomputation) add("memory.recompute = \"auto\"");
  if (const std::int64_t context = fitting_context(need, question); context > 0)
    add("model.context = " + std::to_string(context) + " or less");
  if (question.parameter_count > 0 && need.bytes > 0) {
    const double share =
        std::min(1.0, static_cast<double>(question.limit_bytes) / static_cast<double>(need.bytes));
    add("a model of about " +
        format_count(share * (1 - kPlanMargin) * static_cast<double>(question.parameter_count)) +
        " parameters in place of " + format_count(static_cast<double>(question.parameter_count)));
  }
  const std::int64_t outside = question.outside_bytes;
  add("a budget of " + (need.exact ? format_bytes(with_margin(need.bytes) + outside)
                                   : "more than " + format_bytes(need.bytes + outside)));
  return text;
}

}  // namespace

Error refusal(const std::vector<Fact>& facts, const PlanQuestion& question) {
  const Need need = need_of(facts, question);
  const std::int64_t missing = std::max<std::int64_t>(0, need.bytes - question.limit_bytes);
  return {Error::Kind::refused, "plan the micro-batch",
          "memory for " + describe(need.point) + ", which takes " + in_words(need),
          format_bytes(question.limit_bytes + question.outside_bytes) + ", of which " +
              (question.outside_bytes > 0
                   ? format_bytes(question.outside_bytes) + " are taken by the program itself and "
                   : "") +
              format_bytes(question.resident.total()) + " are parameters, gradients" +
              (question.resident.cuts > 0 ? ", a window's activations at its cuts" : "") +
              " and optimizer state; " + (need.exact ? "" : "at least ") + format_bytes(missing) +
              " are missing",
          advice(need, question)};
}

}  // namespace accrue::memory
