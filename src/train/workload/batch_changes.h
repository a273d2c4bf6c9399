#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/data/source.h"
#include "accrue/optim/schedule.h"
#include "accrue/train/config.h"
#include "batch/changing_windows.h"
#include "batch/sampler.h"
#include "batch/schedule.h"
#include "train/checkpoint/train_state.h"

namespace accrue::train {

struct Workload;

/// Whether windows of one run differ in size, by the config or by what the run measures. If they do
/// not, the batch may still be changed by hand (batch_may_change).
bool batch_changes(const Config& config);

/// Whether the batch at a place also depends on the run's length.
bool depends_on_run_length(const Config& config);

/// The properties that all samples of a run share.
struct SampleFacts {
  std::int64_t samples_per_epoch = 0;
  std::optional<std::int64_t> tokens_per_sample = {};  ///< 0: they have none; absent: they differ
};

/// The budget of a batch of `size`, in the unit in which the config states its batch.
batch::WindowBudget budget_of_batch(const Config& config, std::int64_t size);

/// The batch that the config states, in its unit, for the window that begins at `place`: the
/// current stage of batch.schedule, the current size of the ramp, or the size that seesaw derives
/// from the learning rate. A linear ramp grows by whole samples, or by micro-batches if their size
/// is stated; one that doubles spends equal parts of its length on each of its sizes. For a batch
/// that is decided during the run: its first size. A pure function.
std::int64_t batch_at(const Config& config, const SampleFacts& samples,
                      const batch::WindowPlace& place);

/// The learning rate of a run over the unit of its length (steps, tokens, or draws for epochs), and
/// a place in that unit. A warm-up in steps counts steps of the stated batch.
optim::LearningRate rate_over_length(const Config& config, const SampleFacts& samples);
std::int64_t place_in_length(const Config& config, const batch::WindowPlace& place);

/// The progress of a run at `place`, in a unit of length; for percent, of the run's stated length.
double place_in(Duration::Unit unit, const Config& config, const SampleFacts& samples,
                const batch::WindowPlace& place);
/// Throws a usage Error if `duration` is in tokens and samples have none.
void expect_countable(const Duration& duration, const SampleFacts& samples, const char* key);

/// The decision of seesaw for the window at `place`.
adapt::BatchDecision seesaw_at(const Config& config, const SampleFacts& samples,
                               const batch::WindowPlace& place);

SampleFacts sample_facts(const data::Source& train);

/// The smallest and the largest window, in the batch's unit.
struct BatchRange {
  std::int64_t least = 0, most = 0;
};
BatchRange batch_range(const Config& config);
/// Samples of the largest batch that the config states, however many there are; none if they depend
/// on the contents of samples.
std::optional<std::int64_t> largest_stated_samples(const Config& config,
                                                   const SampleFacts& samples);

/// The windows of a run whose batch changes. Throws a usage Error for a batch that is not a
/// multiple of the context, and for a place in tokens if samples have none.
batch::WindowSchedule changing_schedule(const Config& config, const batch::Sampler& sampler,
                                        const std::shared_ptr<const data::Source>& train);

/// `schedule` with the sizes decided during the run, in the order of its windows.
batch::WindowSchedule with_changes(const Config& config, batch::WindowSchedule schedule,
                                   const std::vector<BatchChange>& changes);

/// The schedule of `work` as one whose batch may change: the same windows.
batch::WindowSchedule as_changing(const Workload& work);
/// The schedule of `work` with what was decided on the way or by hand.
batch::WindowSchedule with_changes(const Workload& work, const std::vector<BatchChange>& changes);
/// The windows of a whole run with them, also with those that lie ahead.
std::int64_t windows_of_run(const Workload& work, const std::vector<BatchChange>& changes);

/// The batch that `stated` has, in the unit of `begun`; none if that is not known: either has no
/// batch that stays as it is, or samples differ in length.
std::optional<std::int64_t> batch_in_unit_of(const Config& begun, const Config& stated,
                                             const SampleFacts& samples);
/// `config` with the batch that `other` states.
Config with_batch_of(Config config, const Config& other);
/// "batch.tokens" or "batch.samples", as the config states its batch, and how large that is.
std::string key_of_batch(const Config& config);
std::int64_t stated_batch(const Config& config);

/// "the run began with 16 samples; changed by hand: 32 from step 9 on", for people; empty if
/// nothing was changed by hand.
std::string changes_by_hand_in_words(const Config& config, const std::vector<BatchChange>& changes);

/// "16 samples, 32 from step 8 on", for people; empty if the batch stays as it is.
std::string batch_changes_in_words(const Config& config);

}  // namespace accrue::train
