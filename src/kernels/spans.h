#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "accrue/core/forward_context.h"

namespace accrue::kernels {

/// The position of each sample in rows of `length` columns: `spans` if there are any, and otherwise
/// each row as a whole, as sample 0. Throws a usage Error if a span exceeds its row or overlaps
/// another.
std::vector<SampleSpan> spans_or_rows(std::string_view operation,
                                      const std::vector<SampleSpan>& spans, std::int64_t rows,
                                      std::int64_t length);

/// spans_or_rows() with the sample ids of the context. Throws a usage Error if there is not one per
/// row.
std::vector<SampleSpan> named_spans(std::string_view operation, const ForwardContext& context,
                                    std::int64_t rows, std::int64_t length);

/// The number of columns of all spans together.
std::int64_t covered(const std::vector<SampleSpan>& spans);
std::int64_t longest(const std::vector<SampleSpan>& spans);

}  // namespace accrue::kernels
