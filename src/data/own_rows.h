#pragma once

#include <cstdint>

#include "accrue/batch/micro_batch.h"

namespace accrue::data {

inline constexpr const char* kOwnSamples = "samples of the program's own";
inline constexpr const char* kAskedForOnly =
    "a function that makes the samples it is asked for, and no others";

/// Throws a usage Error unless `made`, which the program returned, has `rows` rows.
void check_rows(const batch::MicroBatch& made, std::int64_t rows);

}  // namespace accrue::data
