#include "verify/bound.h"

namespace accrue::proof {

double rounding_bound(const RoundingTerms& terms) {
  // Both sides round, so that on average their difference is below twice the noise. One or two
  // draws may have come out at a quarter of what is usual, hence 8. A sum may be rounded several
  // times within one product that adds into it, hence 4 times its error; and each side rounds its
  // result a few times, hence 8 u.
  return 8 * terms.noise + 4 * terms.accumulation + 8 * terms.unit_roundoff * terms.gradient_norm;
}

}  // namespace accrue::proof
