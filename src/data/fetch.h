#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/data/source.h"

namespace accrue::data {

/// Samples `indices` of `source` as a micro-batch whose sample ids (its own, its spans' and its
/// unreadable samples') are taken from `ids`, which has one for each index.
batch::MicroBatch fetch_as(const Source& source, std::span<const std::int64_t> indices,
                           std::vector<std::int64_t> ids);

/// Fetches samples as training sees them: `draws`, the ids, are the draws' ordinals
/// (Source::fetch_drawn).
batch::MicroBatch fetch_drawn_as(const Source& source, std::span<const std::int64_t> indices,
                                 std::vector<std::int64_t> draws);

/// Returns as many rows as `indices`, for callers that need the shape rather than the samples:
/// usable samples replace unreadable or excluded ones. Throws a usage Error if no sample of
/// `source` can be used.
batch::MicroBatch fetch_full(const Source& source, std::span<const std::int64_t> indices,
                             std::vector<std::int64_t> ids);

/// The first sample that can be used, as a micro-batch. Throws as fetch_full() does.
batch::MicroBatch fetch_one(const Source& source);

}  // namespace accrue::data
