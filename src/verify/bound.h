#pragma once

namespace accrue::proof {

/// What a parameter's gradient may lose to rounding is made of. Norms are L2, of gradients of the
/// sum of losses.
struct RoundingTerms {
  double gradient_norm = 0;  ///< of one pass
  /// What adding up the micro-batches may lose: the running error bound, u_acc times the sum over
  /// micro-batches of the norm of the sum so far (Higham, "Accuracy and Stability of Numerical
  /// Algorithms", 2002, section 4.3), or what the accumulation's precision has in its place.
  double accumulation = 0;
  /// Largest change of the one-pass gradient when every parameter moves by one unit in the last
  /// place, up or down at random, and the loss is scaled, by which every sum of the backward pass
  /// rounds otherwise: what forward and backward make of rounding.
  double noise = 0;
  double unit_roundoff = 0;  ///< u of the parameter's dtype
};

/// 8 noise + 4 accumulation + 8 u gradient_norm (docs/numerics.md, "verify's bound").
double rounding_bound(const RoundingTerms& terms);

}  // namespace accrue::proof
