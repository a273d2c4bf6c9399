#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/data/source.h"

namespace accrue::data {

/// Samples `indices` of `source` as a micro-batch whose sample_ids, and those of its spans, are
/// `ids`: one for each.
batch::MicroBatch fetch_as(const Source& source, std::span<const std::int64_t> indices,
                           std::vector<std::int64_t> ids);

}  // namespace accrue::data
