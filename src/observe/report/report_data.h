#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "observe/history/run_history.h"
#include "observe/report/charts.h"
#include "observe/report/differences.h"
#include "observe/report/figures.h"
#include "observe/report/run_description.h"
#include "observe/report/shown_events.h"
#include "observe/report/thinning.h"

namespace accrue::observe {

/// Columns on one axis of steps, thinned. A bucket's position is its last step.
struct ThinTable {
  std::int64_t width = 1;               ///< steps in a bucket
  std::vector<std::int64_t> steps;      ///< the last of each bucket
  std::vector<double> tokens, samples;  ///< cumulative, at these steps; empty if not counted
  std::vector<double> seconds;          ///< of the run, at these steps; empty if not known
  std::map<std::string, ThinColumn> columns;
  std::map<std::string, double> last;  ///< of each column the last value, which no bucket thins
};

/// One run, as shown on the page.
struct RunView {
  std::string name, folder, state;
  RunDescription description;
  std::vector<Figure> figures;
  ThinTable training, evaluations;
  ShownEvents events;
  std::map<std::string, std::string> config;
  std::vector<std::string> remarks;
};

struct ReportData {
  std::vector<RunView> runs;
  std::vector<Chart> charts;
  std::vector<Difference> differences;  ///< of configs and environments, without names and times
  std::vector<std::string> remarks;     ///< on the runs together
};

/// Names have to be unique (make_names_differ). `most_numbers` bounds the numbers in all columns of
/// all runs together, by wider buckets; it is exceeded if even 64 buckets a column are too many.
ReportData make_report_data(const std::vector<RunHistory>& runs, std::size_t most_numbers);

/// A bound that keeps the page of one run below 2 MB, and of ten below 20 MB.
std::size_t most_numbers_of(std::size_t runs);

}  // namespace accrue::observe
