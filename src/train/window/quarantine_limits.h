#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "accrue/batch/micro_batch.h"
#include "accrue/core/ledger.h"
#include "batch/schedule.h"

namespace accrue::train {

/// Micro-batches, or samples, of a window of `count` that may be left out: the fraction `limit` of
/// them rounded down, at least one; none where `limit` is 0.
std::int64_t allowed_quarantined(double limit, std::int64_t count);

/// Throws a runtime Error naming samples and reasons where more micro-batches of a window of
/// `micro_batches` are quarantined than allowed.
void require_few_quarantined(const LedgerView& ledger, double limit, std::int64_t micro_batches);

/// Throws a runtime Error with the reasons where more samples of a window of `parts` could not be
/// read than may be: the fraction `limit` of them, as allowed_quarantined().
void require_few_left_out(std::span<const batch::LeftOut> left_out, double limit,
                          std::span<const batch::Range> parts, std::int64_t window);

/// "sample 17: cat/3.png does not decode: ...; sample 29: ...".
std::string describe(std::span<const batch::LeftOut> left_out);

}  // namespace accrue::train
