#include "cli/verbs/plan_estimate.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "accrue/core/units.h"
#include "cli/output/print_text.h"
#include "core/words.h"
#include "train/plan/plan_json.h"

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
                     {"trained_parameters", e.trained},
                     {"batch_samples", e.batch_samples},
                     {"micro_batch", e.micro_batch},
                     {"micro_batches", e.micro_batches},
                     {"effective_batch", train::effective_batch_json(e.effective)},
                     {"sixteen_bit", to_json(e.sixteen_bit)},
                     {"held", to_json(e.held)},
                     {"activations", nlohmann::json::object()},
                     {"micro_activation_bytes", e.micro_activation_bytes},
                     {"one_pass_bytes", e.one_pass_bytes},
                     {"savings", nlohmann::json::array()},
                     {"devices", nlohmann::json::array()}};
  if (!e.batch_changes.empty()) out["batch_changes"] = e.batch_changes;
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

nlohmann::json to_json(const train::BudgetEstimate& b) {
  nlohmann::json out{{"budget_bytes", b.budget_bytes},
                     {"outside_bytes", b.outside_bytes},
                     {"fits", b.fits},
                     {"enough_bytes", b.enough_bytes}};
  if (!b.fits) return out;
  out["micro_batch"] = b.micro_batch;
  out["recompute"] = to_string(b.recompute);
  out["peak_bytes"] = b.peak_bytes;
  return out;
}

nlohmann::json to_json(const train::MachineEstimate& m) {
  nlohmann::json out{
      {"threads", m.threads}, {"available_bytes", m.available_bytes}, {"gflops", m.gflops}};
  if (m.least_step_seconds) out["least_step_seconds"] = *m.least_step_seconds;
  if (m.most_step_seconds) out["most_step_seconds"] = *m.most_step_seconds;
  return out;
}

/// "1.30 B": parameters are counted in billions.
std::string parameters_in_words(std::int64_t parameters) {
  std::string text = format_count(static_cast<double>(parameters));
  if (text.back() == 'G') text.back() = 'B';
  return text;
}

void print_figure(const std::string& name, const std::string& value) {
  print_text("%-24s%s\n", name.c_str(), value.c_str());
}

std::string sum_text(const memory::Resident& r) {
  return format_bytes(r.parameters) + " parameters + " + format_bytes(r.gradients) +
         " gradients + " + format_bytes(r.optimizer) + " optimizer = " + format_bytes(r.total());
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

void print(const train::BudgetEstimate& b) {
  const std::string of_them =
      ", of which about " + format_bytes(b.outside_bytes) + " go to the program itself";
  print_figure("memory.budget", format_bytes(b.budget_bytes) + of_them);
  if (!b.fits)
    return print_figure("", "does not fit; memory.budget = \"" +
                                format_bytes_rounded_up(b.enough_bytes) + "\" would" +
                                " by this arithmetic, with the most recomputation");
  print_figure("", "fits: micro-batches of up to " +
                       memory::describe({b.micro_batch, b.recompute}) + ", " +
                       format_bytes(b.peak_bytes) + " in all");
}

void print(const train::MachineEstimate& m) {
  print_figure("this machine", counted(m.threads, "thread") + ", " +
                                   format_bytes(m.available_bytes) + " free, " + number(m.gflops) +
                                   " GFLOP/s in a large matrix product, measured now");
  if (m.least_step_seconds)
    print_figure("a step on it", "about " + format_seconds(*m.least_step_seconds) + " to " +
                                     format_seconds(*m.most_step_seconds) +
                                     ": the arithmetic at that rate, and at a quarter of it");
}

void print(const RunEstimate& e) {
  print_figure("model", parameters_in_words(e.parameters) + " parameters" +
                            (e.trained < e.parameters
                                 ? ", of which " + parameters_in_words(e.trained) + " are trained"
                                 : ""));
  if (!e.batch_changes.empty())
    print_figure("the batch changes", e.batch_changes + "; of the largest:");
  print_figure("effective batch", in_words(e.effective) + " (micro-batch " + e.micro_reason + ")");
  print_figure("all in 16 bit, Adam", sum_text(e.sixteen_bit) + " before activations");
  print_figure("accrue holds", sum_text(e.held));
  for (const RunEstimate::Mode& mode : e.modes)
    print_figure("activations, " + std::string(to_string(mode.recompute)),
                 format_bytes(mode.sample_bytes) + " a sample, " +
                     format_bytes(mode.sample_bytes * e.micro_batch) + " a micro-batch");
  print_figure("the batch in one pass", format_bytes(e.one_pass_bytes));
  print_text("\nwhat each would save\n");
  for (const RunEstimate::Saving& saving : e.savings)
    print_text("  %-52s %12s\n", saving.change.c_str(), format_bytes(saving.bytes).c_str());
  print_text("\n%-10s %-12s %24s %12s\n", "device", "recompute", "largest micro-batch", "peak");
  for (const RunEstimate::Fit& fit : e.fits)
    print_text("%-10s %-12s %24s %12s\n", fit.device.name.c_str(),
               std::string(to_string(fit.recompute)).c_str(),
               fit.largest_micro_batch > 0 ? std::to_string(fit.largest_micro_batch).c_str()
                                           : "does not fit",
               format_bytes(fit.peak_bytes).c_str());
  if (e.cost) print_text("\n");
  print_cost(e);
}

}  // namespace

void print_estimate(const Estimates& estimates, bool json) {
  if (json) {
    nlohmann::json out = to_json(estimates.run);
    if (estimates.budget) out["budget"] = to_json(*estimates.budget);
    out["machine"] = to_json(estimates.machine);
    std::cout << out.dump(2) << std::endl;
    return;
  }
  print(estimates.run);
  print_text("\n");
  if (estimates.budget) print(*estimates.budget);
  print(estimates.machine);
}

}  // namespace accrue::cli
