#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "accrue/batch/micro_batch.h"
#include "accrue/core/ledger.h"
#include "accrue/models/trainable.h"
#include "batch/schedule.h"

namespace accrue::train {

/// How many of `count` micro-batches, or samples, of a window may be quarantined: the fraction
/// `limit` rounded down, at least one; none if `limit` is 0.
std::int64_t allowed_quarantined(double limit, std::int64_t count);

/// Throws a runtime Error naming samples and reasons if more micro-batches of a window of
/// `micro_batches` are quarantined than allowed.
void require_few_quarantined(const LedgerView& ledger, double limit, std::int64_t micro_batches);

/// Throws a runtime Error with the reasons if more samples of a window of `micro_batches` were
/// unreadable than allowed: the fraction `limit` of them, as in allowed_quarantined().
void require_few_unreadable(std::span<const batch::UnreadableSample> unreadable, double limit,
                            std::span<const batch::Range> micro_batches, std::int64_t window);

/// Throws a runtime Error if a running statistic of the model is NaN: a micro-batch of one sample
/// may have one value for each channel, which has no variance. Plans avoid such micro-batches;
/// left-out images (`unreadable`) or lack of memory may create one. (verify runs such splits on
/// purpose.)
void require_running_statistics(const models::Trainable& model,
                                std::span<const batch::UnreadableSample> unreadable,
                                std::int64_t window);

/// "sample 17: cat/3.png does not decode: ...; sample 29: ...".
std::string describe(std::span<const batch::UnreadableSample> unreadable);

}  // namespace accrue::train
