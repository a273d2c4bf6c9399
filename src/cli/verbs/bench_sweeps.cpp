#include "cli/verbs/bench_sweeps.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/output/print_text.h"
#include "core/words.h"

namespace accrue::cli {
namespace {

constexpr int curve_width = 40;

/// A bar as long as `value` lies between `least` and `most`.
std::string bar(double value, double least, double most) {
  const double part = most > least ? (value - least) / (most - least) : 0;
  return std::string(static_cast<std::size_t>(std::lround(part * curve_width)), '#');
}

nlohmann::json to_json(const adapt::NoiseScale& noise) {
  nlohmann::json out{{"low", noise.low}, {"gradient_variance", noise.variance}};
  if (noise.value) out["value"] = *noise.value;
  if (noise.high) out["high"] = *noise.high;
  return out;
}

}  // namespace

nlohmann::json to_json(const train::RateSweep& sweep) {
  nlohmann::json rates = nlohmann::json::array();
  for (const train::SweptRate& rate : sweep.rates)
    rates.push_back({{"lr", rate.lr}, {"loss", rate.loss}, {"smoothed", rate.smoothed}});
  nlohmann::json out{{"rates", std::move(rates)},
                     {"lr", sweep.stated},
                     {"lowest_at", sweep.lowest_at},
                     {"suggested", sweep.suggested},
                     {"reason", sweep.reason}};
  if (sweep.diverges_at) out["diverges_at"] = *sweep.diverges_at;
  return out;
}

void print(const train::RateSweep& sweep) {
  constexpr std::size_t lines = 25;
  const auto by_loss = [](const train::SweptRate& rate) { return rate.smoothed; };
  const double least = std::ranges::min(sweep.rates, {}, by_loss).smoothed,
               most = std::ranges::max(sweep.rates, {}, by_loss).smoothed;
  const std::size_t step = std::max<std::size_t>(1, sweep.rates.size() / lines);
  print_text("%-12s%10s\n", "lr", "loss");
  for (std::size_t i = 0; i < sweep.rates.size(); i += step) {
    const train::SweptRate& rate = sweep.rates[i];
    print_text("%-12.3g%10.4f  %s\n", rate.lr, rate.smoothed,
               bar(rate.smoothed, least, most).c_str());
  }
  if (sweep.diverges_at) print_text("%-12.3g%10s\n", *sweep.diverges_at, "diverges");
  print_text("\n%-12s%.3g\n%s\n", "suggested", sweep.suggested, sweep.reason.c_str());
}

nlohmann::json to_json(const train::BatchSweep& sweep) {
  nlohmann::json batches = nlohmann::json::array();
  for (const train::SweptBatch& swept : sweep.batches) {
    nlohmann::json& out = batches.emplace_back();
    out["batch"] = swept.batch;
    out["steps"] = swept.steps;
    out["lr"] = swept.lr;
    out["finite"] = swept.is_finite;
    if (!swept.is_finite) continue;
    out["loss"] = swept.loss;
    out["seconds"] = swept.seconds;
    out["loss_per_million"] = swept.loss_per_unit;
    out["loss_per_second"] = swept.loss_per_second;
    if (swept.predicted) out["predicted"] = *swept.predicted;
  }
  nlohmann::json out{{"unit", sweep.counts_tokens ? "tokens" : "samples"},
                     {"batch", sweep.stated},
                     {"trained_on", sweep.units},
                     {"loss_before", sweep.loss_before},
                     {"batches", std::move(batches)},
                     {"suggested", sweep.suggested},
                     {"reason", sweep.reason}};
  if (sweep.noise) out["noise_scale"] = to_json(*sweep.noise);
  return out;
}

void print(const train::BatchSweep& sweep) {
  const char* unit = sweep.counts_tokens ? "tokens" : "samples";
  print_text("each batch on %s %s from the same start, where the loss is %.4f\n\n",
             digit_groups(std::llround(sweep.units)).c_str(), unit, sweep.loss_before);
  print_text("%-12s%8s%10s%10s%10s%16s%14s%11s\n", unit, "steps", "lr", "loss", "seconds",
             sweep.counts_tokens ? "fall/M tokens" : "fall/M samples", "fall/second", "predicted");
  for (const train::SweptBatch& swept : sweep.batches) {
    print_text("%-12s%8lld%10.3g", digit_groups(std::llround(swept.batch)).c_str(),
               static_cast<long long>(swept.steps), swept.lr);
    if (!swept.is_finite) {
      print_text("%10s\n", "diverges");
      continue;
    }
    print_text("%10.4f%10.2f%16.4f%14.4f", swept.loss, swept.seconds, swept.loss_per_unit,
               swept.loss_per_second);
    if (swept.predicted) print_text("%10.0f%%", 100 * *swept.predicted);
    print_text("\n");
  }
  print_text("\n%-12s%s\n%s\n", "suggested", digit_groups(std::llround(sweep.suggested)).c_str(),
             sweep.reason.c_str());
}

}  // namespace accrue::cli
