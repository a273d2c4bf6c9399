#pragma once

#include <string>

#include "observe/report/report_data.h"

namespace accrue::observe {

/// The data of a page as compact JSON: numbers of charts with six significant digits; NaN is null.
/// A column that never changes is its number, one that keeps only the mean of its buckets an array,
/// any other an object of three arrays. Bytes that are not UTF-8 are replaced.
std::string to_json(const ReportData& data);

}  // namespace accrue::observe
