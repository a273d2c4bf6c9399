#include "train/plan/layout_forecast.h"

#include <algorithm>
#include <cmath>

#include "core/words.h"
#include "distributed/schedule/pipeline_schedule.h"
#include "memory/plan_entries.h"
#include "train/plan/activation_placement.h"

namespace accrue::train {
namespace {

/// A forward pass's part of the operations of forward and backward.
constexpr double kForwardOperations = 1.0 / 3;
/// The lists of activations, and of their gradients, that a stage holds on their way.
constexpr double kListsOnTheirWay = 4;

bool is_in_layers(const RankLayout& layout) { return layout.order == AccumulationOrder::layered; }

/// The ranks that share the samples of a window.
std::int64_t sharing_ranks(const RankLayout& layout, const RankMachines& machines) {
  return layout.in_stages ? 1 : machines.ranks;
}

/// The work of a window on the rank that has most.
struct WindowWork {
  std::int64_t samples = 1;
  std::int64_t micro_batches = 1;
  std::int64_t micro_batch = 1;
  double forward_seconds = 0;   ///< of one sample
  double backward_seconds = 0;  ///< of one sample, with a forward pass that runs again
};

WindowWork work_of(const RankLayout& layout, const memory::PlanPoint& point,
                   const LayoutFacts& facts, const RankMachines& machines) {
  WindowWork work{.micro_batch = std::min(point.micro_batch, facts.batch_samples)};
  work.samples = memory::samples_of_a_rank(
      {.window_samples = facts.batch_samples, .ranks = sharing_ranks(layout, machines)},
      work.micro_batch);
  work.micro_batches = (work.samples + work.micro_batch - 1) / work.micro_batch;
  const double seconds = facts.flops_per_sample / machines.flops;
  work.forward_seconds = kForwardOperations * seconds;
  const bool reruns = is_in_layers(layout) || point.recompute == Recompute::full;
  work.backward_seconds = seconds - (reruns ? 0 : work.forward_seconds);
  return work;
}

/// The largest part of the blocks that a stage has.
double share_of_a_stage(const LayoutFacts& facts, const RankMachines& machines) {
  const std::int64_t blocks = (facts.chain.blocks + machines.ranks - 1) / machines.ranks;
  return static_cast<double>(blocks) / static_cast<double>(facts.chain.blocks);
}

std::int64_t sample_bytes_of(const LayoutFacts& facts, Recompute recompute) {
  for (const RunEstimate::Mode& mode : facts.modes)
    if (mode.recompute == recompute) return mode.sample_bytes;
  return facts.modes.front().sample_bytes;
}

/// The bytes of `whole` if `divided` among the ranks.
double part_of(std::int64_t whole, bool divided, const RankMachines& machines) {
  return static_cast<double>(whole) / (divided ? static_cast<double>(machines.ranks) : 1);
}

/// Parameters, sums and moments in the memory of a rank: its part, and of what is divided or
/// offloaded two segments, the second of which is brought while the first one runs.
memory::Breakdown state_of_a_rank(const RankLayout& layout, const LayoutFacts& facts,
                                  const RankMachines& machines) {
  const ShardedState& divided = layout.state;
  const double two_segments = facts.trained > 0
                                  ? std::min(1.0, static_cast<double>(facts.chain.pair_parameters) /
                                                      static_cast<double>(facts.trained))
                                  : 1;
  const auto in_memory = [&](std::int64_t whole, bool is_divided, bool comes_by_segment) {
    const double passing = two_segments * static_cast<double>(whole);
    if (layout.offloads) return std::llround(passing);
    return std::llround(part_of(whole, is_divided, machines) + (comes_by_segment ? passing : 0));
  };
  const std::int64_t copies = divided.moments && facts.copies_moments ? 2 : 1;
  return {.parameters = in_memory(facts.held.parameters, divided.parameters, divided.parameters),
          .gradients = in_memory(facts.held.gradients, divided.sums, divided.sums),
          .optimizer = copies * in_memory(facts.held.optimizer, divided.moments,
                                          /*comes_by_segment=*/false)};
}

memory::Breakdown bytes_of_a_rank(const RankLayout& layout, const memory::PlanPoint& point,
                                  const WindowWork& work, const LayoutFacts& facts,
                                  const RankMachines& machines) {
  memory::Breakdown bytes = state_of_a_rank(layout, facts, machines);
  if (is_in_layers(layout)) {
    bytes.activations = work.micro_batch * facts.segment_sample_bytes;
    return bytes;
  }
  const auto micro = static_cast<double>(work.micro_batch);
  double kept = micro * static_cast<double>(sample_bytes_of(facts, point.recompute));
  if (layout.in_stages) {
    const auto in_flight =
        static_cast<double>(distributed::most_in_flight(0, machines.ranks, work.micro_batches));
    // The memory of one block's backward is not divided: not less than a whole model's micro-batch.
    kept *= std::max(1.0, in_flight * share_of_a_stage(facts, machines));
    bytes.temporaries =
        std::llround(kListsOnTheirWay * micro * static_cast<double>(facts.chain.cut_bytes));
  }
  bytes.activations = std::llround(kept);
  return bytes;
}

/// The cuts of the rank's whole window, beside its state. There is one more than between segments:
/// the gradients at the largest one exist beside them.
ActivationPlacement cuts_of_window(const WindowWork& work, const memory::Breakdown& bytes,
                                   const LayoutFacts& facts, const RankMachines& machines) {
  return decide_activation_placement(
      {.bytes_per_sample = facts.chain.cut_bytes * (facts.chain.cuts + 1),
       .window_samples = work.samples,
       .available_bytes =
           machines.tensor_bytes - bytes.parameters - bytes.gradients - bytes.optimizer});
}

/// The exchanges of a window outside a pipeline's passes.
struct Exchanges {
  Transfer sums;      ///< once the sums are final
  Transfer returned;  ///< parameters, after the step
  Transfer forward;   ///< of divided parameters, during the forward passes
  Transfer backward;  ///< the same during the backward passes

  Transfer all() const { return sums + returned + forward + backward; }
};

Exchanges exchanges_of(const RankLayout& layout, const LayoutFacts& facts,
                       const RankMachines& machines) {
  const auto sums = static_cast<double>(facts.held.gradients);
  const double parameters = static_cast<double>(facts.trained) * facts.storage.values.master;
  const ShardedState& divided = layout.state;
  Exchanges exchanges{.sums = divided.moments ? to_each_other(sums, machines)
                                              : all_reduce(sums, machines)};
  if (divided.parameters) {
    exchanges.forward = exchanges.backward = to_each_other(parameters, machines);
  } else if (divided.moments) {
    exchanges.returned = all_gather(parameters, machines);
  }
  if (divided.moments && facts.copies_moments)
    exchanges.returned += to_neighbour(part_of(facts.held.optimizer, true, machines), machines);
  return exchanges;
}

/// The seconds of the sums' exchange that remain after the last micro-batch's backward, which hides
/// it up to the gradients that are complete last: those of the first segment.
double exposed_sums(const RankLayout& layout, const Transfer& sums, const WindowWork& work,
                    const LayoutFacts& facts) {
  const bool overlaps = facts.sums_overlap && !layout.in_stages && !is_in_layers(layout);
  if (!overlaps || facts.trained == 0) return sums.seconds;
  const double last = std::min(
      1.0, static_cast<double>(facts.chain.first_parameters) / static_cast<double>(facts.trained));
  const double backward = static_cast<double>(work.micro_batch) * work.backward_seconds;
  return sums.seconds - std::min((1 - last) * sums.seconds, backward);
}

void run_replicas(const WindowWork& work, const Exchanges& exchanges, LayoutForecast& forecast) {
  const auto samples = static_cast<double>(work.samples);
  const double forward = samples * work.forward_seconds, backward = samples * work.backward_seconds;
  forecast.compute_seconds = forward + backward;
  forecast.exposed_seconds += std::max(0.0, exchanges.forward.seconds - forward) +
                              std::max(0.0, exchanges.backward.seconds - backward);
}

/// Each stage is as slow as the one with most blocks. While it computes, it sends one micro-batch's
/// activations to the next stage and gradients to the one before.
void run_stages(const WindowWork& work, const LayoutFacts& facts, const RankMachines& machines,
                LayoutForecast& forecast) {
  const double directions = machines.ranks > 2 ? 2 : 1;
  const auto micro = static_cast<double>(work.micro_batch),
             passes = static_cast<double>(work.micro_batches),
             others = static_cast<double>(machines.ranks - 1);
  const double compute =
      micro * (work.forward_seconds + work.backward_seconds) * share_of_a_stage(facts, machines);
  const Transfer sent =
      to_neighbour(directions * micro * static_cast<double>(facts.chain.cut_bytes), machines);
  forecast.transfer += passes * sent;
  forecast.compute_seconds = passes * compute;
  forecast.waiting_seconds = others * compute;
  forecast.exposed_seconds += (passes + others) * std::max(0.0, sent.seconds - compute);
}

/// A window whose state lies on the rank's disk. The exchange reads and writes the sums once more.
OffloadForecast disk_of_a_rank(const WindowWork& work, const LayoutFacts& facts,
                               const RankMachines& machines) {
  OffloadForecast disk =
      forecast_offload({.traffic = offload_traffic(facts.storage),
                        .parameters = facts.trained,
                        .rates = machines.disk,
                        .sample_seconds = work.forward_seconds + work.backward_seconds,
                        .samples = work.samples});
  const auto sums = static_cast<double>(facts.held.gradients);
  disk.bytes_read += sums;
  disk.bytes_written += sums;
  disk.step_seconds += sums / machines.disk.read + sums / machines.disk.write;
  return disk;
}

}  // namespace

std::string obstacle_of(const RankLayout& layout, const LayoutFacts& facts,
                        const RankMachines& machines) {
  const bool is_known = facts.chain.blocks > 0;
  if (!is_known && (layout.in_stages || is_in_layers(layout) || layout.state.parameters))
    return "not computed: the cuts of this kind of model differ in size";
  if (layout.in_stages && machines.ranks > facts.chain.blocks)
    return "not possible: " + counted(facts.chain.blocks, "block") + " for " +
           counted(machines.ranks, "stage");
  if (!layout.in_stages && facts.batch_samples < machines.ranks)
    return "not possible: a batch of " + counted(facts.batch_samples, "sample") + " for " +
           counted(machines.ranks, "rank");
  if (layout.offloads && facts.has_frozen)
    return "not computed: the disk's traffic is known for models without frozen parameters";
  if (layout.offloads && machines.disk.read <= 0) return "not computed: needs --disk";
  return "";
}

LayoutForecast forecast_layout(const RankLayout& layout, const memory::PlanPoint& point,
                               const LayoutFacts& facts, const RankMachines& machines) {
  const WindowWork work = work_of(layout, point, facts, machines);
  const Exchanges exchanges = exchanges_of(layout, facts, machines);
  LayoutForecast forecast{.layout = layout,
                          .point = {work.micro_batch, point.recompute},
                          .micro_batches = work.micro_batches,
                          .bytes = bytes_of_a_rank(layout, point, work, facts, machines),
                          .transfer = exchanges.all()};
  forecast.exposed_seconds =
      exposed_sums(layout, exchanges.sums, work, facts) + exchanges.returned.seconds;
  if (layout.in_stages)
    run_stages(work, facts, machines, forecast);
  else
    run_replicas(work, exchanges, forecast);
  if (is_in_layers(layout)) {
    const ActivationPlacement cuts = cuts_of_window(work, forecast.bytes, facts, machines);
    forecast.cuts_in_file = cuts.in_file;
    if (!cuts.in_file) forecast.bytes.temporaries = cuts.bytes;
  }
  if (layout.offloads) {
    forecast.disk = disk_of_a_rank(work, facts, machines);
    forecast.exposed_seconds += forecast.disk->seconds() - forecast.compute_seconds;
  }
  forecast.fits = static_cast<double>(forecast.bytes.total()) <=
                  static_cast<double>(machines.tensor_bytes) * (1 - memory::kPlanMargin);
  return forecast;
}

}  // namespace accrue::train
