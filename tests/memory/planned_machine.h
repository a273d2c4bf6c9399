#pragma once

#include <map>
#include <random>
#include <vector>

#include "memory/plan.h"

namespace accrue::memory {

/// A machine with known costs: bytes fixed + slope * b, seconds start + each * b.
struct Machine {
  struct Cost {
    std::int64_t fixed, slope;
    double start, each;
  };
  std::map<Recompute, Cost> costs;
  std::int64_t memory = 1'000'000'000;  ///< trials beyond it fail
  double noise = 0;                     ///< relative, of seconds
  mutable std::mt19937_64 random{7};
  mutable std::vector<PlanPoint> tried = {};

  std::int64_t bytes(const PlanPoint& point) const {
    const Cost& cost = costs.at(point.recompute);
    return cost.fixed + cost.slope * point.micro_batch;
  }
  double seconds(const PlanPoint& point) const {
    const Cost& cost = costs.at(point.recompute);
    return cost.start + cost.each * static_cast<double>(point.micro_batch);
  }
  double window_seconds(const PlanPoint& point, std::int64_t window) const {
    double total = 0;
    for (std::int64_t done = 0; done < window; done += point.micro_batch)
      total += seconds({std::min(point.micro_batch, window - done), point.recompute});
    return total;
  }
  Trial trial() const {
    return [this](const PlanPoint& point) -> Measured {
      tried.push_back(point);
      if (bytes(point) > memory) return {.fits = false, .peak_bytes = memory};
      const double error = std::uniform_real_distribution<double>(-noise, noise)(random);
      return {.peak_bytes = bytes(point), .seconds = seconds(point) * (1 + error)};
    };
  }
};

inline Machine machine() {
  return {.costs = {{Recompute::none, {1100, 100, 0.5, 1.0}},
                    {Recompute::selective, {1100, 60, 0.5, 1.1}},
                    {Recompute::full, {1100, 20, 0.5, 1.3}}}};
}

inline PlanQuestion question(std::int64_t window, std::int64_t limit) {
  return {.window_samples = window,
          .limit_bytes = limit,
          .modes = {Recompute::none, Recompute::selective, Recompute::full},
          .resident = {.parameters = 300, .gradients = 300, .optimizer = 400}};
}

}  // namespace accrue::memory
