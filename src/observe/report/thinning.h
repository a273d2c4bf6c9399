#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace accrue::observe {

/// Rows of a table grouped by step: bucket b is the rows from ends[b - 1] to ends[b]. A bucket
/// spans `width` steps, a power of two, and begins at a multiple of it, so that the buckets of runs
/// with different widths nest.
struct Buckets {
  std::int64_t width = 1;
  std::vector<std::size_t> ends;  ///< ascending; no bucket is empty
  std::size_t count() const { return ends.size(); }
};

/// The narrowest buckets that are no more than `most` (at least 1). `steps` ascend.
Buckets bucket_steps(const std::vector<std::int64_t>& steps, std::size_t most);

/// A column's values in each bucket; NaN if it has none there.
struct ThinColumn {
  std::vector<double> mean, lowest, highest;
};

/// `column` is as long as the steps that made the buckets. NaN is ignored.
ThinColumn thin(const std::vector<double>& column, const Buckets& buckets);

/// The last row of each bucket: its position on an axis that grows with the steps.
template <typename Number>
std::vector<Number> last_of_buckets(const std::vector<Number>& column, const Buckets& buckets) {
  std::vector<Number> lasts;
  lasts.reserve(buckets.count());
  for (const std::size_t end : buckets.ends) lasts.push_back(column[end - 1]);
  return lasts;
}

}  // namespace accrue::observe
