#include "train/pass/head_sums.h"

namespace accrue::train {

HeadSums& HeadSums::operator+=(const HeadSums& other) {
  sums.resize(std::max(sums.size(), other.sums.size()), 0);
  weights.resize(std::max(weights.size(), other.weights.size()), 0);
  for (std::size_t head = 0; head < other.sums.size(); ++head) sums[head] += other.sums[head];
  for (std::size_t head = 0; head < other.weights.size(); ++head)
    weights[head] += other.weights[head];
  return *this;
}

std::map<std::string, double> means_of(const std::vector<models::LossHead>& heads,
                                       const HeadSums& sums) {
  std::map<std::string, double> means;
  if (heads.size() < 2) return means;
  for (std::size_t head = 0; head < sums.sums.size(); ++head)
    if (heads[head].coefficient != 0 && sums.weights[head] > 0)
      means[heads[head].name] = sums.sums[head] / sums.weights[head];
  return means;
}

}  // namespace accrue::train
