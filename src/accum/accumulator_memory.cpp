#include <cmath>

#include "accrue/accum/accumulator.h"
#include "accrue/core/error.h"
#include "accum/same_total.h"
#include "core/words.h"
#include "memory/out_of_memory.h"
#include "memory/retries.h"

namespace accrue {
namespace {

constexpr const char* kSmallerSample =
    "a larger memory budget, smaller samples, or a model that recomputes its activations";

/// Samples [begin, end) of `whole`, when the window has `entries` so far.
MicroRef part_of_micro(const std::vector<std::int64_t>& whole, std::int64_t begin, std::int64_t end,
                       std::size_t entries) {
  return {.index = static_cast<std::int64_t>(entries),
          .sample_ids = {whole.begin() + begin, whole.begin() + end}};
}

/// The part of `amount` for samples [begin, end) of `samples`: integers that add up to it, if it is
/// an integer.
double share_of(double amount, std::int64_t begin, std::int64_t end, std::int64_t samples) {
  const auto up_to = [&](std::int64_t sample) {
    return sample == samples
               ? amount
               : std::floor(amount * static_cast<double>(sample) / static_cast<double>(samples));
  };
  return up_to(end) - up_to(begin);
}

/// Adds up the weights of parts, which must give those of the whole.
class WeightsOfParts {
 public:
  explicit WeightsOfParts(std::vector<double> whole)
      : whole_(std::move(whole)), seen_(whole_.size(), 0) {}

  void add(const std::vector<double>& part) {
    for (std::size_t i = 0; i < seen_.size(); ++i) seen_[i] += part.at(i);
  }

  /// Throws a usage Error if the parts so far and `last` do not give the whole.
  void require_whole_with(const std::vector<double>& last) const {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const double together = seen_[i] + last.at(i);
      if (same_total(together, whole_[i])) continue;
      throw usage_error("replay of a micro-batch in parts",
                        "weights that add up to its " + std::to_string(whole_[i]),
                        std::to_string(together),
                        "a replay that returns the sum, and not the mean, over exactly the samples "
                        "of MicroRef::sample_ids");
    }
  }

 private:
  std::vector<double> whole_, seen_;
};

}  // namespace

bool Accumulator::can_split(const Micro& micro, const std::exception& error) const {
  const bool has_replay = counters_.losses ? static_cast<bool>(options_.replay_losses)
                                           : options_.replay || options_.replay_losses;
  return options_.split_out_of_memory && has_replay && !micro.sample_ids.empty() &&
         !window_.is_lost() && memory::is_out_of_memory(error);
}

/// Runs a micro-batch that ran out of memory, and was undone, in parts.
void Accumulator::run_in_parts(const Micro& whole, bool is_last, const std::exception& error) {
  const std::int64_t samples = std::ssize(whole.sample_ids);
  const std::string cause = memory::why_out_of_memory(error);
  const std::string what = describe(window_.ledger().entries.back().micro);
  const bool is_mathematics = find_batch_norms_ && !find_batch_norms_().empty();
  memory::Recovery recovery(
      {.planned = samples, .micro_batch = samples},
      is_mathematics ? "batch normalisation takes the statistics of the micro-batch" : "");
  memory::Retries retries(&recovery, [] { return std::string(kSmallerSample); });
  WeightsOfParts weights(whole.all_weights());
  const std::int64_t first_entry = std::ssize(window_.ledger().entries) - 1;
  try {
    retries.failed(what, samples, error);
    memory::run_in_parts(samples, recovery, [&](std::int64_t begin, std::int64_t end) {
      try {
        Micro part = part_of(whole, begin, end);
        part.first_entry = first_entry;
        if (end == samples) weights.require_whole_with(part.all_weights());
        add_once(part, is_last && end == samples);
        if (end < samples) weights.add(part.all_weights());
        retries.passed();
        return true;
      } catch (const std::exception& again) {
        if (window_.is_lost() || !memory::is_out_of_memory(again)) throw;
        retries.failed(what, end - begin, again);
        return false;
      }
    });
  } catch (const std::exception& last) {
    if (!window_.is_lost()) window_.lose(last.what());
    throw;
  }
  out_of_memory_ += retries.count();
  const std::int64_t size = recovery.state().micro_batch;
  emit("out_of_memory",
       what + " ran out of memory (" + cause + "): it went through " +
           (size == samples ? "when it was run once more"
                            : "in parts of at most " + counted(size, "sample") +
                                  "; micro-batches of that size would not have to run again"));
}

/// The number of micro-batches in the open window; one that was split counts once, if a part is in.
std::int64_t Accumulator::micro_batches_in() const {
  const LedgerView ledger = window_.ledger();
  std::int64_t count = 0, last = -1;
  for (std::size_t i = 0; i < ledger.entries.size(); ++i) {
    const std::int64_t first = counters_.first_entries.at(i);
    if (ledger.entries[i].status != MicroStatus::committed || first == last) continue;
    ++count;
    last = first;
  }
  return count;
}

Accumulator::Micro Accumulator::part_of(const Micro& whole, std::int64_t begin, std::int64_t end) {
  const MicroRef ref = part_of_micro(whole.sample_ids, begin, end, window_.ledger().entries.size());
  Micro part = weighed(forward_again(ref));
  const std::int64_t samples = std::ssize(whole.sample_ids);
  part.units = share_of(whole.units, begin, end, samples);
  part.samples = share_of(whole.samples, begin, end, samples);
  part.sample_ids = ref.sample_ids;
  return part;
}

}  // namespace accrue
