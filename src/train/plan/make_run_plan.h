#pragma once

#include <string>
#include <vector>

#include "accrue/train/run_plan.h"
#include "train/checkpoint/rank_record.h"
#include "train/plan/setup.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Input tokens of a full window, on average if samples differ in length; 0 for images.
std::int64_t tokens_of_window(const Workload& work);

/// The plan of a run after its micro-batch was decided: this rank's by `decision`, all ranks' by
/// `ranks`.
RunPlan make_plan(const Workload& work, const MicroDecision& decision,
                  const std::vector<RankRecord>& ranks);

/// A full window of `work`, divided among ranks with these micro-batches.
EffectiveBatch effective_batch(const Workload& work,
                               const std::vector<std::int64_t>& micro_batches);

/// Remarks of the data, for people; only once if training and held-out part have the
/// same.
std::vector<std::string> data_remarks(const Datasets& data);
/// data_remarks(), and the decisions about the initial model.
std::vector<std::string> remarks_of(const Workload& work);

/// One line for people: "gpt2, 10.8 M parameters, fp32; effective batch of 8 samples x 8
/// accumulation steps = 64 samples, 16,384 tokens; ...".
std::string summarise(const Config& config, const RunPlan& plan);

Horizon make_horizon(const RunPlan& plan);

}  // namespace accrue::train
