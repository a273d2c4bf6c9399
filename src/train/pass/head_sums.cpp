#include "train/pass/head_sums.h"

#include <algorithm>

namespace accrue::train {

namespace {

void add_to(std::vector<double>& sums, const std::vector<double>& others) {
  sums.resize(std::max(sums.size(), others.size()), 0);
  for (std::size_t i = 0; i < others.size(); ++i) sums[i] += others[i];
}

}  // namespace

HeadSums& HeadSums::operator+=(const HeadSums& other) {
  add_to(sums, other.sums);
  add_to(weights, other.weights);
  add_to(measures, other.measures);
  return *this;
}

std::map<std::string, double> means_of(const std::vector<models::LossHead>& heads,
                                       const HeadSums& sums) {
  std::map<std::string, double> means;
  std::size_t measure = 0;
  for (std::size_t head = 0; head < sums.sums.size(); ++head) {
    const bool counts = heads[head].coefficient != 0 && sums.weights[head] > 0;
    if (counts && heads.size() > 1) means[heads[head].name] = sums.sums[head] / sums.weights[head];
    for (const std::string& name : heads[head].measures) {
      if (counts && measure < sums.measures.size())
        means[name] = sums.measures[measure] / sums.weights[head];
      ++measure;
    }
  }
  return means;
}

}  // namespace accrue::train
