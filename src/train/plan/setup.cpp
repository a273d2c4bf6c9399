#include "train/plan/setup.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/kernels/kernel_choice.h"
#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "core/machine.h"
#include "core/signal_handling.h"
#include "core/startable_threads.h"
#include "memory/out_of_memory.h"
#include "train/plan/enough_memory.h"
#include "train/plan/offload_forecast.h"
#include "train/plan/offload_room.h"
#include "train/plan/plan_choice.h"
#include "train/plan/reported_trials.h"
#include "train/workload/placement.h"

namespace accrue::train {

namespace {

/// Threads that a run starts besides its team: for samples, checkpoints and their copies.
constexpr std::int64_t kHelperThreads = 3;

/// The threads that exist for a team of this size, besides its first: those of libgomp, and as many
/// of a pool that at::set_num_threads starts.
std::int64_t kept_for(std::int64_t team) { return 2 * (team - 1); }

/// The most threads that the system has to start for a team of this size. oneDNN opens regions of
/// fewer threads, for which libgomp ends some, and starts others before those are gone; a region of
/// one thread ends none.
std::int64_t started_for(std::int64_t team) {
  return team <= 2 ? kept_for(team) : kept_for(team) + team - 1 + kHelperThreads;
}

/// The largest team of at most `wanted` threads that can be started when one of `present` exists.
std::int64_t possible_team(std::int64_t wanted, std::int64_t present) {
  const std::int64_t kept = kept_for(present);
  const std::int64_t all = kept + startable_threads(started_for(wanted) - kept);
  while (wanted > 1 && started_for(wanted) > all) --wanted;
  return wanted;
}

/// libgomp keeps a team for each thread that opens regions. If it cannot start a team's threads, it
/// ends the process.
thread_local std::int64_t team = 1;

/// The threads of this thread's present or possible team, at most `wanted`.
std::int64_t team_up_to(std::int64_t wanted) {
  return wanted <= team ? wanted : possible_team(wanted, team);
}

void use_team(std::int64_t threads) {
  team = threads;
  const auto count = static_cast<int>(threads);
  at::set_num_threads(count);
  omp_set_num_threads(count);
  // The system may give a signal to any thread, and each of these runs parts of products.
#pragma omp parallel
  install_signal_stack();
}

}  // namespace

void use_up_to(std::int64_t threads) { use_team(team_up_to(threads)); }

void use_threads(std::int64_t threads) {
  const std::int64_t possible = team_up_to(threads > 0 ? threads : granted_threads());
  if (threads > possible)
    throw usage_error("run.threads = " + std::to_string(threads),
                      "at most " + std::to_string(possible) +
                          ", for which the system starts enough threads in this process",
                      std::to_string(threads),
                      "--run.threads=" + std::to_string(possible) +
                          ", or a higher limit (ulimit -u, pids.max of the control group, memory "
                          "for stacks)");
  use_team(possible);
}

std::string remark_on_threads(const Config& config) {
  const std::int64_t granted = granted_threads();
  constexpr std::int64_t kFarTooMany = 8;
  if (config.run.threads > kFarTooMany * granted)
    return "run.threads = " + std::to_string(config.run.threads) + " on a machine that grants " +
           std::to_string(granted) +
           ": threads that wait for each other make the run slower; try run.threads = " +
           std::to_string(granted);
  if (config.run.threads > 0 || at::get_num_threads() >= granted) return {};
  return std::to_string(at::get_num_threads()) + " of the " + std::to_string(granted) +
         " threads that the machine grants: the system starts no more for this process (the limits "
         "are ulimit -u, pids.max of the control group, and memory for stacks)";
}

std::int64_t threads_per_process(std::int64_t processes) {
  return team_up_to(std::max<std::int64_t>(1, granted_threads() / processes));
}

std::string budget_per_process(std::int64_t processes) {
  constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
  const std::int64_t bytes =
      memory::auto_budget(memory::held_of_a_budget(), memory::available_bytes() / processes);
  return std::to_string(std::max<std::int64_t>(1, bytes / kMebibyte)) + "MiB";
}

Config shared_by(Config config, std::int64_t processes) {
  if (processes == 1) return config;
  if (config.run.threads == 0) config.run.threads = threads_per_process(processes);
  if (config.memory.budget_is_auto()) config.memory.budget = budget_per_process(processes);
  return config;
}

namespace {

void check_budget_holds_the_program(const Config& config) {
  if (!memory::tensor_budget() || *memory::tensor_budget() > 0) return;
  throw Error(Error::Kind::refused, "memory.budget = \"" + config.memory.budget + "\"",
              "more than the " + format_bytes(memory::left_outside()) +
                  " that the program itself holds outside tensors (code, libraries, heap, and a "
                  "reserve)",
              format_bytes(*memory::budget()), memory::larger_budget(enough_budget(config)));
}

}  // namespace

void use_resources(const Config& config) {
  check_offload_budget(config);
  use_threads(config.run.threads);
  if (config.run.kernels) kernels::choose(*config.run.kernels);
  memory::count_device(device_of(config));
  if (!memory::counts_allocations() && !config.memory.has_budget()) return;
  memory::set_budget(memory::resolve_budget(config.memory.budget));
  memory::measure_outside();
  check_budget_holds_the_program(config);
}

MicroDecision choose_micro_batch(const Workload& work, const ShowProgress& show) {
  memory::PlanQuestion question = plan_question(work);
  if (is_decided(question))
    return {.samples = std::min(*question.micro_batch, question.window_samples),
            .recompute = question.modes.front(),
            .reason = *question.micro_batch > question.window_samples
                          ? "the whole batch, which is less than batch.micro says"
                          : "as batch.micro says"};
  LongOperation planning(show, "planning");
  const std::unique_ptr<PlanTrials> trials = begin_trials(work, question);
  std::vector<memory::Fact> facts = memory::measure(
      reported_trials(*trials, [&](const std::string& what) { planning.begin_part(what); }),
      question);
  question.resident = trials->resident();
  remeasure_beyond_budget(
      [&](const memory::PlanPoint& point) { return trials->measure_again(point); }, question,
      facts);
  auto plan = std::make_shared<const memory::Plan>(memory::plan(without_waits(facts), question));
  // By now libtorch's own share of a device's memory is that of the largest trial.
  if (memory::device_room()) memory::release_cached();
  return {.samples = plan->chosen.point.micro_batch,
          .recompute = plan->chosen.point.recompute,
          .reason = plan->reason,
          .trials = plan};
}

}  // namespace accrue::train
