#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace accrue::observe {

/// A quantity from step to step, in bounded memory: when there are too many points, adjacent ones
/// are replaced by their mean.
class Curve {
 public:
  /// Values that are not finite are left out.
  void add(double value);
  /// At most `count` points over the whole length, each the mean of its part.
  std::vector<double> points(std::size_t count) const;

 private:
  void halve();

  std::vector<double> means_;  ///< of `each_` values; the last one of `in_last_`
  std::size_t each_ = 1;
  std::size_t in_last_ = 0;
};

/// The points as characters of rising height, one column each, scaled from the lowest to the
/// highest: blocks in UTF-8, else ASCII marks. If all points are equal they are at the bottom.
std::string sparkline(const std::vector<double>& points, bool utf8);

/// A bar of `columns` characters, filled up to this share (0 to 1).
std::string filled_bar(double part, int columns, bool utf8);

}  // namespace accrue::observe
