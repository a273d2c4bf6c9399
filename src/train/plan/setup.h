#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "accrue/core/recompute.h"
#include "train/workload/workload.h"

namespace accrue::memory {
struct Plan;
}

namespace accrue::train {

/// Sets the threads of libtorch and of OpenMP in this thread; 0: all that the machine allows, or as
/// many of them as the system can start. Throws a usage Error if `threads` are stated and it can
/// start only fewer.
void use_threads(std::int64_t threads);
/// Does the same for a number that was not stated: as many of them as the system can start.
void use_up_to(std::int64_t threads);
/// How many of the machine's threads use_threads() left out, and why; empty if none.
std::string remark_on_threads(const Config& config);
/// How many threads each of `processes` on this machine may keep busy, and can start; at least 1.
std::int64_t threads_per_process(std::int64_t processes);
/// The share of memory.budget = "auto" for each of `processes` that share this machine's memory and
/// have all started, as a value of memory.budget.
std::string budget_per_process(std::int64_t processes);
/// `config` for one of `processes` on this machine: divides threads that are not stated and a
/// budget of "auto" among them.
Config shared_by(Config config, std::int64_t processes);
/// Sets the threads and the memory budget that the config states, for the whole process. Throws a
/// usage Error if a budget is stated and memory::install_caching_allocator was not called, a
/// refused one if the program itself takes all of it.
void use_resources(const Config& config);

struct MicroDecision {
  std::int64_t samples = 1;
  Recompute recompute = Recompute::none;
  std::string reason;  ///< why these, for people
  std::shared_ptr<const memory::Plan> trials =
      {};  ///< what it was chosen from; null without trials
};

/// The micro-batch and recomputation that memory::plan chooses for the workload, within what
/// `batch.micro` and `memory.recompute` leave open. If they leave nothing open, or batch.micro
/// is stated and no budget is, nothing is tried. In all other cases a few micro-batches of the
/// longest samples run forward and backward beside an optimizer's state and a gradient buffer that
/// are made for it, so it is to be called before the run's own are made. The model is left as it
/// was, running statistics included. Throws a refused Error (exit status 3) if nothing fits into
/// the budget.
MicroDecision choose_micro_batch(const Workload& work, const ShowProgress& show = {});

}  // namespace accrue::train
