#include "verify/subject.h"

#include <ATen/ATen.h>

namespace accrue::proof {

void add_to(Gradients& sum, const Gradients& more) {
  sum.terms = sum.sums.empty() ? more.terms : sum.terms + more.terms;
  for (std::size_t i = 0; i < more.sums.size(); ++i) {
    if (sum.sums.size() <= i)
      sum.sums.push_back(
          at::zeros(more.sums[i].sizes(), more.sums[i].options().dtype(at::kDouble)));
    sum.sums[i].add_(more.sums[i]);
  }
  sum.weight += more.weight;
  sum.loss_sum += more.loss_sum;
}

Gradients Subject::in_passes(const Parts& parts, const Conditions& conditions) {
  if (parts.size() == 1) return one_pass(parts.front(), conditions);
  Gradients sum;
  for (const batch::Range part : parts) add_to(sum, one_pass(part, conditions));
  return sum;
}

}  // namespace accrue::proof
