#include "verify/bound.h"

namespace accrue::proof {

double rounding_bound(const RoundingTerms& terms) {
  // Twice the noise would do on average; the rest is for the tail of one or two draws. A sum may be
  // rounded several times within one product that adds into it, hence 4 times its error.
  return 8 * terms.noise + 4 * terms.accumulation + 8 * terms.unit_roundoff * terms.gradient_norm;
}

}  // namespace accrue::proof
