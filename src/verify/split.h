#pragma once

#include <cstdint>
#include <string>

#include "verify/subject.h"

namespace accrue::proof {

/// A way to split a batch, with a name.
struct Split {
  std::string name;
  Parts parts;
};

/// Micro-batches of `micro` samples over `samples`, the last one may be short.
Split even_split(batch::Range samples, std::int64_t micro);
Split reversed(Split split);
Split shuffled(Split split, std::uint64_t seed);
/// Three parts of unequal sizes, about 2 : 4 : 9; fewer for less than 3 samples.
Split uneven_split(batch::Range samples);

}  // namespace accrue::proof
