#include "commands/plan_estimate.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "accrue/core/units.h"
#include "accrue/core/words.h"

namespace accrue::cli {
namespace {

using train::RunEstimate;

nlohmann::json to_json(const memory::Resident& resident) {
  return {{"parameters", resident.parameters},
          {"gradients", resident.gradients},
          {"optimizer", resident.optimizer},
          {"total", resident.total()}};
}

nlohmann::json to_json(const memory::RunCost& cost) {
  return {{"hours", cost.hours}, {"money", cost.money}};
}

nlohmann::json to_json(const RunEstimate& e) {
  nlohmann::json out{{"parameters", e.parameters},
                     {"batch_samples", e.batch_samples},
                     {"micro_batch", e.micro_batch},
                     {"micro_batches", e.micro_batches},
                     {"sixteen_bit", to_json(e.sixteen_bit)},
                     {"held", to_json(e.held)},
                     {"activations", nlohmann::json::object()},
                     {"micro_activation_bytes", e.micro_activation_bytes},
                     {"one_pass_bytes", e.one_pass_bytes},
                     {"savings", nlohmann::json::array()},
                     {"devices", nlohmann::json::array()}};
  if (e.sample_tokens > 0) out["batch_tokens"] = e.batch_samples * e.sample_tokens;
  if (e.sixteen_bit_sample_bytes > 0) {
    out["sixteen_bit"]["activation_bytes_per_sample"] = e.sixteen_bit_sample_bytes;
    out["sixteen_bit"]["one_pass_bytes"] =
        e.sixteen_bit.total() + e.batch_samples * e.sixteen_bit_sample_bytes;
  }
  for (const RunEstimate::Mode& mode : e.modes)
    out["activations"][std::string(to_string(mode.recompute))] = mode.sample_bytes;
  for (const RunEstimate::Saving& saving : e.savings)
    out["savings"].push_back({{"change", saving.change}, {"bytes", saving.bytes}});
  for (const RunEstimate::Fit& fit : e.fits)
    out["devices"].push_back({{"device", fit.device.name},
                              {"bytes", fit.device.bytes},
                              {"recompute", to_string(fit.recompute)},
                              {"largest_micro_batch", fit.largest_micro_batch},
                              {"peak_bytes", fit.peak_bytes}});
  if (e.total_tokens) out["total_tokens"] = *e.total_tokens;
  if (e.cost) out["cost"] = to_json(*e.cost);
  if (e.versus_cost) out["versus_cost"] = to_json(*e.versus_cost);
  if (e.comparison)
    out["comparison"] = {
        {"time_ratio", e.comparison->time_ratio},
        {"cost_ratio", e.comparison->cost_ratio},
        {"break_even_price", e.comparison->break_even_price},
        {"break_even_tokens_per_second", e.comparison->break_even_tokens_per_second}};
  return out;
}

/// In decimal units, as devices are sold: "10.4 GB".
std::string gigabytes(std::int64_t bytes) {
  constexpr double giga = 1e9, mega = 1e6;
  const auto value = static_cast<double>(bytes);
  char text[32];
  std::snprintf(text, sizeof text, value < giga ? "%.4g MB" : "%.4g GB",
                value / (value < giga ? mega : giga));
  return text;
}

void print_figure(const std::string& name, const std::string& value) {
  std::printf("%-24s%s\n", name.c_str(), value.c_str());
}

std::string sum_text(const memory::Resident& r) {
  return gigabytes(r.parameters) + " parameters + " + gigabytes(r.gradients) + " gradients + " +
         gigabytes(r.optimizer) + " optimizer = " + gigabytes(r.total());
}

std::string percent(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%% %s", 100 * std::abs(ratio - 1),
                ratio < 1 ? "less" : "more");
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

void print_cost(const RunEstimate& e) {
  const auto row = [](const char* name, const memory::RunCost& cost) {
    print_figure(name, number(cost.hours) + " hours, " + number(cost.money) + " in all");
  };
  if (e.cost) row("cost", *e.cost);
  if (e.versus_cost) row("cost, the other", *e.versus_cost);
  if (!e.comparison) return;
  print_figure("the other takes", percent(e.comparison->time_ratio) + " time, " +
                                      percent(e.comparison->cost_ratio) + " cost");
  print_figure("break-even", "at " + number(e.comparison->break_even_price) + " an hour, or " +
                                 number(e.comparison->break_even_tokens_per_second) +
                                 " tokens/s, of the other");
}

void print(const RunEstimate& e) {
  print_figure("model", format_count(static_cast<double>(e.parameters)) + " parameters");
  print_figure("batch", counted(e.batch_samples, "sample") + " = " +
                            counted(e.micro_batches, "micro-batch") + " of " +
                            std::to_string(e.micro_batch) + " (" + e.micro_reason + ")");
  print_figure("all in 16 bit, Adam", sum_text(e.sixteen_bit) + " before activations");
  print_figure("accrue holds", sum_text(e.held));
  for (const RunEstimate::Mode& mode : e.modes)
    print_figure("activations, " + std::string(to_string(mode.recompute)),
                 gigabytes(mode.sample_bytes) + " a sample, " +
                     gigabytes(mode.sample_bytes * e.micro_batch) + " a micro-batch");
  print_figure("the batch in one pass", gigabytes(e.one_pass_bytes));
  std::printf("\nwhat each would save\n");
  for (const RunEstimate::Saving& saving : e.savings)
    std::printf("  %-52s %12s\n", saving.change.c_str(), gigabytes(saving.bytes).c_str());
  std::printf("\n%-10s %-12s %24s %12s\n", "device", "recompute", "largest micro-batch", "peak");
  for (const RunEstimate::Fit& fit : e.fits)
    std::printf("%-10s %-12s %24s %12s\n", fit.device.name.c_str(),
                std::string(to_string(fit.recompute)).c_str(),
                fit.largest_micro_batch > 0 ? std::to_string(fit.largest_micro_batch).c_str()
                                            : "does not fit",
                gigabytes(fit.peak_bytes).c_str());
  if (e.cost) std::printf("\n");
  print_cost(e);
}

}  // namespace

void print_estimate(const RunEstimate& estimate, bool json) {
  if (json) {
    std::cout << to_json(estimate).dump(2) << std::endl;
  } else {
    print(estimate);
  }
}

}  // namespace accrue::cli
