#pragma once

#include <string>

#include "observe/report/report_data.h"

namespace accrue::observe {

/// The data of a page as compact JSON: numbers of charts with six significant digits; NaN is null.
/// A column that never changes is its number, one of whose buckets nothing but the mean is kept an
/// array, any other an object of three arrays. Text that is not UTF-8 has its bytes replaced.
std::string to_json(const ReportData& data);

}  // namespace accrue::observe
