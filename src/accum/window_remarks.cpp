#include "accum/window_remarks.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/words.h"

namespace accrue::accum {
namespace {

std::optional<std::string> unused_parameters(const GradientBuffer& buffer) {
  constexpr std::size_t most_named = 3;
  if (buffer.folds()) return std::nullopt;
  std::vector<std::string> unused;
  for (const GradientBuffer::Entry& entry : buffer.entries())
    if (entry.slot->fresh) unused.push_back("'" + entry.name + "'");
  if (unused.empty()) return std::nullopt;
  const std::size_t count = unused.size();
  return "no loss of the first window depends on " + first_few(std::move(unused), most_named) +
         " (of " + counted(std::ssize(buffer.entries()), "parameter") +
         "): without a gradient an optimizer leaves " + (count == 1 ? "it" : "them") +
         " as it is; freeze what is not meant to be trained (requires_grad_(false)), or look for a "
         "detach() in the forward pass";
}

/// For a sum over several samples, a weight of exactly 1 is not a count of terms.
std::optional<std::string> means(const LedgerView& ledger) {
  std::int64_t found = 0;
  for (const LedgerEntry& entry : ledger.entries) {
    if (entry.status != MicroStatus::committed) continue;
    if (entry.micro.weight != 1 || entry.micro.sample_ids.size() < 2) return std::nullopt;
    ++found;
  }
  if (found < 2) return std::nullopt;
  return "each of the first window's " + counted(found, "micro-batch") +
         " has a loss of weight 1 and several samples, as a mean has: the mean of means is the "
         "batch's only while all micro-batches have as many terms; return Loss{sum, number of "
         "terms}, of a mean over n terms Loss{mean * n, n}";
}

std::optional<std::string> repeated_samples(const LedgerView& ledger) {
  std::set<std::int64_t> seen;
  for (const LedgerEntry& entry : ledger.entries) {
    if (entry.status != MicroStatus::committed) continue;
    for (const std::int64_t id : entry.micro.sample_ids)
      if (!seen.insert(id).second)
        return "sample " + std::to_string(id) +
               " is in the first window twice, and counts twice: sample ids are to differ within a "
               "window (the ordinals of draws do)";
  }
  return std::nullopt;
}

}  // namespace

std::vector<WindowRemark> remarks_on(const Window& window) {
  std::vector<WindowRemark> remarks;
  const auto add = [&](const char* name, std::optional<std::string> reason) {
    if (reason) remarks.push_back({name, std::move(*reason)});
  };
  add("unused", unused_parameters(*window.buffer()));
  add("loss_weight", means(window.ledger()));
  add("repeated_samples", repeated_samples(window.ledger()));
  return remarks;
}

}  // namespace accrue::accum
