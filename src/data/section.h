#pragma once

#include <cstdint>
#include <memory>

#include "accrue/data/source.h"

namespace accrue::data {

/// Data that several processes hold in sections, of which this one has the samples of `own`:
/// numbers [first, first + own->size()) of `total` in the order of all. fetch() throws a usage
/// Error for a sample of another section. Throws one if the section does not lie within `total`,
/// or if `own` is a mixture, whose parts are not consecutive there.
std::unique_ptr<Source> section(std::shared_ptr<const Source> own, std::int64_t first,
                                std::int64_t total);

}  // namespace accrue::data
