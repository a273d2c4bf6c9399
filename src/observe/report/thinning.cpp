#include "observe/report/thinning.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace accrue::observe {
namespace {

std::vector<std::size_t> bucket_ends(const std::vector<std::int64_t>& steps, std::int64_t width) {
  std::vector<std::size_t> ends;
  for (std::size_t row = 1; row <= steps.size(); ++row)
    if (row == steps.size() || steps[row] / width != steps[row - 1] / width) ends.push_back(row);
  return ends;
}

struct Summary {
  double sum = 0, lowest = 0, highest = 0;
  std::size_t count = 0;

  void add(double value) {
    if (std::isnan(value)) return;
    lowest = count == 0 ? value : std::min(lowest, value);
    highest = count == 0 ? value : std::max(highest, value);
    sum += value;
    ++count;
  }
};

}  // namespace

Buckets bucket_steps(const std::vector<std::int64_t>& steps, std::size_t most) {
  Buckets buckets;
  buckets.ends = bucket_ends(steps, buckets.width);
  while (buckets.count() > std::max<std::size_t>(most, 1)) {
    buckets.width *= 2;
    buckets.ends = bucket_ends(steps, buckets.width);
  }
  return buckets;
}

ThinColumn thin(const std::vector<double>& column, const Buckets& buckets) {
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  ThinColumn thinned;
  std::size_t row = 0;
  for (const std::size_t end : buckets.ends) {
    Summary bucket;
    for (; row < end; ++row) bucket.add(column[row]);
    const bool any = bucket.count > 0;
    thinned.mean.push_back(any ? bucket.sum / static_cast<double>(bucket.count) : nothing);
    thinned.lowest.push_back(any ? bucket.lowest : nothing);
    thinned.highest.push_back(any ? bucket.highest : nothing);
  }
  return thinned;
}

}  // namespace accrue::observe
