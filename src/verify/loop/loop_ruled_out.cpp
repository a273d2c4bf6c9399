#include "verify/loop/loop_ruled_out.h"

namespace accrue::proof {

std::vector<std::string> ruled_out_of_loop(const LoopObservations& seen, bool fitted, Cause found) {
  std::vector<std::string> out;
  if (!seen.difference.exceeds()) return out;
  const auto rule = [&](Cause cause, bool is_out, const std::string& why) {
    if (is_out && cause != found) out.push_back(std::string(to_string(cause)) + ": " + why);
  };
  rule(Cause::stepped_mid_window, seen.stepped_before < 0 && !seen.parameters_changed,
       "no backward found parameters changed, and after the loop they are as before");
  rule(Cause::zeroed_mid_window,
       fitted && seen.saw_sums && seen.zeroed_before < 0 && !seen.tail.matches,
       "no backward found a sum gone, and the last micro-batches alone are not what the loop left");
  rule(Cause::nondeterminism, seen.repeated && !seen.repeated->exceeds(),
       "the loop, run twice from the same seed, is the same");
  rule(Cause::normalization, fitted && !seen.multiple.matches,
       "no constant factor explains the difference");
  rule(Cause::weighting, fitted && !seen.mean_of_means.matches && !seen.span.matches,
       "no weighted sum of the micro-batches' gradients is what the loop left");
  rule(Cause::precision, fitted && !seen.low_precision.matches,
       "adding the micro-batches' gradients in bf16 or fp16 does not give what the loop left");
  return out;
}

}  // namespace accrue::proof
