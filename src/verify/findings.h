#pragma once

#include <string>
#include <vector>

#include "accrue/verify/report.h"
#include "verify/comparison.h"

namespace accrue::proof {

/// Collects the results of comparisons for a Report.
class Findings {
 public:
  explicit Findings(const NamedParameters& parameters);
  void add(const Comparison& comparison);
  bool exceed() const;  ///< whether some parameter exceeds its bound
  /// Fills in equal, max_relative_error, bound and parameters.
  void write(Report& report) const;

 private:
  std::vector<ParameterError> parameters_;
  std::vector<double> ratios_;
  Evidence beyond_;  ///< the worst that no parameter shows: of weights, or of all together
};

/// A fault that is visible in comparisons other than those of gradients with plain passes.
struct Blame {
  Cause cause = Cause::unknown;
  Place place = Place::none;
  std::vector<std::string> evidence;
  double error = 1;
  double bound = 0;
};

/// The result of a split.
SplitResult result_of(const std::string& name, std::int64_t samples, std::int64_t micro_batches,
                      const NamedParameters& parameters, const Comparison& comparison);

}  // namespace accrue::proof
