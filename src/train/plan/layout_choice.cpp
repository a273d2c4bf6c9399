#include "train/plan/layout_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "accrue/core/units.h"
#include "memory/plan_entries.h"

namespace accrue::train {
namespace {

std::vector<Recompute> modes_in(const RankLayout& layout, const LayoutFacts& facts) {
  if (layout.order == AccumulationOrder::layered) return {Recompute::none};
  std::vector<Recompute> modes;
  for (const RunEstimate::Mode& mode : facts.modes) modes.push_back(mode.recompute);
  return modes;
}

std::vector<LayoutForecast> forecasts_of(const RankLayout& layout, const LayoutFacts& facts,
                                         const RankMachines& machines) {
  const std::vector<std::int64_t> sizes =
      memory::sizes_of({.window_samples = facts.batch_samples,
                        .ranks = layout.in_stages ? 1 : machines.ranks,
                        .micro_batch = facts.micro_batch});
  std::vector<LayoutForecast> forecasts;
  for (const Recompute mode : modes_in(layout, facts))
    for (const std::int64_t size : sizes)
      forecasts.push_back(forecast_layout(layout, {size, mode}, facts, machines));
  return forecasts;
}

/// The slowest time that counts as this one.
double as_fast_as(double seconds) { return seconds * (1 + memory::kPlanTolerance); }

bool any_fits(std::span<const RankLayout> layouts, const LayoutFacts& facts,
              const RankMachines& machines) {
  return std::ranges::any_of(layouts, [&](const RankLayout& layout) {
    return obstacle_of(layout, facts, machines).empty() && best_point(layout, facts, machines).fits;
  });
}

RankMachines with_nodes(RankMachines machines, std::int64_t nodes) {
  machines.ranks = nodes * machines.ranks_of_a_node();
  machines.nodes = nodes;
  return machines;
}

/// A number of ranks that is enough: with twice as many nodes, four times as many and so on, and
/// then fewer, as long as they do.
std::optional<std::int64_t> enough_ranks(std::span<const RankLayout> layouts,
                                         const LayoutFacts& facts, const RankMachines& machines) {
  const std::int64_t most = std::max(facts.batch_samples, facts.chain.blocks);
  const auto fits = [&](std::int64_t nodes) {
    return any_fits(layouts, facts, with_nodes(machines, nodes));
  };
  std::int64_t too_few = machines.nodes, enough = 2 * machines.nodes;
  while (!fits(enough)) {
    if (enough * machines.ranks_of_a_node() > most) return std::nullopt;
    too_few = enough;
    enough *= 2;
  }
  while (enough - too_few > 1) {
    const std::int64_t between = (too_few + enough) / 2;
    (fits(between) ? enough : too_few) = between;
  }
  return enough * machines.ranks_of_a_node();
}

/// The memory of the smallest point of any layout, and one percent more as long as nothing fits:
/// with memory to spare, a window's cuts are kept in it.
std::optional<std::int64_t> least_tensor_bytes(std::span<const RankLayout> layouts,
                                               const LayoutFacts& facts, RankMachines machines) {
  machines.tensor_bytes = 0;  // nothing fits, so that best_point() has the least memory
  std::optional<std::int64_t> least;
  for (const RankLayout& layout : layouts) {
    if (!obstacle_of(layout, facts, machines).empty()) continue;
    const std::int64_t bytes = best_point(layout, facts, machines).bytes.total();
    least = std::min(least.value_or(bytes), bytes);
  }
  if (!least) return std::nullopt;
  double enough = static_cast<double>(*least) / (1 - memory::kPlanMargin);
  const auto fits = [&] {
    machines.tensor_bytes = static_cast<std::int64_t>(std::ceil(enough));
    return any_fits(layouts, facts, machines);
  };
  while (!fits()) enough *= 1 + memory::kPlanTolerance;
  return machines.tensor_bytes;
}

std::string percent_of(double part, double whole) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f%%", whole > 0 ? 100 * part / whole : 0);
  return text.data();
}

std::string bytes_in_words(const LayoutForecast& forecast) {
  const memory::Breakdown& bytes = forecast.bytes;
  std::string text = "parameters " + format_bytes(bytes.parameters) + ", gradients " +
                     format_bytes(bytes.gradients) + ", optimizer " +
                     format_bytes(bytes.optimizer) + ", activations " +
                     format_bytes(bytes.activations);
  if (bytes.temporaries > 0) text += ", cuts " + format_bytes(bytes.temporaries);
  if (forecast.cuts_in_file) text += ", cuts in a file";
  return text;
}

}  // namespace

std::vector<RankLayout> rank_layouts() {
  std::vector<RankLayout> layouts;
  for (const bool in_stages : {false, true})
    for (const ShardedState& state : sharded_states)
      if (!state.parameters) layouts.push_back({.state = state, .in_stages = in_stages});
  for (const ShardedState& state : sharded_states)
    layouts.push_back({.state = state, .order = AccumulationOrder::layered});
  layouts.push_back({.order = AccumulationOrder::layered, .offloads = true});
  return layouts;
}

LayoutForecast best_point(const RankLayout& layout, const LayoutFacts& facts,
                          const RankMachines& machines) {
  std::vector<LayoutForecast> forecasts = forecasts_of(layout, facts, machines);
  const auto least = *std::ranges::min_element(
      forecasts, {}, [](const LayoutForecast& f) { return f.bytes.total(); });
  std::erase_if(forecasts, [](const LayoutForecast& forecast) { return !forecast.fits; });
  if (forecasts.empty()) return least;
  const double best = std::ranges::min_element(forecasts, {}, &LayoutForecast::seconds)->seconds();
  std::erase_if(forecasts, [&](const LayoutForecast& forecast) {
    return forecast.seconds() > as_fast_as(best);
  });
  return *std::ranges::min_element(forecasts, {}, [](const LayoutForecast& forecast) {
    return std::tuple(forecast.point.recompute, -forecast.point.micro_batch);
  });
}

std::vector<LayoutEntry> compare_layouts(std::span<const RankLayout> layouts,
                                         const LayoutFacts& facts, const RankMachines& machines) {
  std::vector<LayoutEntry> entries;
  for (const RankLayout& layout : layouts) {
    LayoutEntry entry{.layout = layout, .obstacle = obstacle_of(layout, facts, machines)};
    if (entry.obstacle.empty()) entry.forecast = best_point(layout, facts, machines);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::optional<std::size_t> fastest(std::span<const LayoutEntry> entries) {
  const auto fits = [](const LayoutEntry& entry) { return entry.forecast && entry.forecast->fits; };
  std::optional<double> best;
  for (const LayoutEntry& entry : entries)
    if (fits(entry))
      best = std::min(best.value_or(entry.forecast->seconds()), entry.forecast->seconds());
  if (!best) return std::nullopt;
  const auto first = std::ranges::find_if(entries, [&](const LayoutEntry& entry) {
    return fits(entry) && entry.forecast->seconds() <= as_fast_as(*best);
  });
  return static_cast<std::size_t>(first - entries.begin());
}

NearestFit nearest_fit(std::span<const RankLayout> layouts, const LayoutFacts& facts,
                       const RankMachines& machines) {
  RankMachines with_disk = machines;
  with_disk.disk = {.read = 1, .write = 1};  // of any speed: only the memory counts here
  return {.ranks = enough_ranks(layouts, facts, machines),
          .tensor_bytes = least_tensor_bytes(layouts, facts, machines),
          .with_a_disk = any_fits(layouts, facts, with_disk)};
}

std::string name_of(const RankLayout& layout) {
  std::string name = layout.in_stages                             ? "stages"
                     : layout.order == AccumulationOrder::layered ? "layered"
                                                                  : "replicas";
  if (layout.state.shard != Shard::none) name += ", " + std::string(to_string(layout.state.shard));
  if (layout.offloads) name += ", offload";
  return name;
}

std::string reason_of(const LayoutEntry& entry, const RankMachines& machines) {
  if (!entry.forecast) return entry.obstacle;
  const LayoutForecast& forecast = *entry.forecast;
  if (!forecast.fits)
    return "does not fit: " + format_bytes(forecast.bytes.total()) + " of " +
           format_bytes(machines.tensor_bytes) + " (" + bytes_in_words(forecast) + ")";
  const double all = forecast.seconds();
  std::string text = "computes " + percent_of(forecast.compute_seconds, all) + " of the time";
  if (forecast.waiting_seconds > 0)
    text += ", stages wait for each other " + percent_of(forecast.waiting_seconds, all);
  text += forecast.disk ? ", transfers and the disk cost " : ", transfers cost ";
  return text + percent_of(forecast.exposed_seconds, all) + " (" + bytes_in_words(forecast) + ")";
}

}  // namespace accrue::train
