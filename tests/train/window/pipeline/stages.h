#pragma once

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "accrue/accum/accumulation.h"
#include "accum/poison.h"
#include "train/formula_source.h"
#include "train/ranks/single_process.h"
#include "train/run/run_window.h"
#include "train/thread_ranks.h"
#include "train/window/micro_batch_runner.h"
#include "train/window/pipeline/pipeline_runner.h"

/// Stages that are threads of this process, each with a separate model.
namespace accrue::train::stages {

inline constexpr std::int64_t kPipelineSamples = 12, kPipelineMicro = 2, kPipelineLength = 3,
                              kPipelineVocab = 8, kPipelineWidth = 4;
inline constexpr std::int64_t kLayers = 4;
inline constexpr double kLarge = 1e6;

class PipelineSamples : public accrue::testing::FormulaSource {
 public:
  PipelineSamples()
      : FormulaSource(
            kPipelineSamples, kPipelineLength, kPipelineVocab,
            [](std::int64_t sample, std::int64_t t) {
              return (sample * 7 + t * 3) % kPipelineVocab;
            },
            [](std::int64_t sample, std::int64_t t) { return (sample + t * t) % kPipelineVocab; }) {
  }
};

/// The planted faults, by sample.
struct PlantedFaults {
  std::set<std::int64_t> losses;                        ///< losses that are not finite
  std::map<std::int64_t, std::int64_t> gradients = {};  ///< layers whose gradient is not finite
  bool spreads = false;                                 ///< and so are those of earlier layers
  std::map<std::int64_t, std::int64_t> large = {};      ///< layers whose weight's gradient is large
  std::set<std::int64_t> unreadable = {};               ///< samples without a row
  bool two_losses = false;                              ///< a second loss, of some samples
  bool forgets_one = false;                             ///< omits the second loss's sum of a sample
};

inline bool is_marked(std::int64_t id) { return id % 5 < 2; }
inline double marks_in(const batch::MicroBatch& micro) {
  return static_cast<double>(std::ranges::count_if(micro.sample_ids, is_marked));
}

/// An embedding, and blocks that each pass on two tensors.
class Layers : public models::Trainable {
 public:
  explicit Layers(PlantedFaults faults) : faults_(std::move(faults)) {
    at::manual_seed(9);
    for (std::int64_t i = 0; i < kLayers; ++i)
      parameters_.push_back(
          {"layer" + std::to_string(i),
           at::randn({i == 0 ? kPipelineVocab : kPipelineWidth, kPipelineWidth}, at::kDouble)
               .requires_grad_(true)});
  }
  NamedParameters parameters() const override { return parameters_; }
  std::vector<models::Segment> segments() override {
    std::vector<models::Segment> segments;
    for (std::int64_t i = 0; i < kLayers; ++i)
      segments.push_back(
          {.name = "layer" + std::to_string(i),
           .forward = [this, i](const models::Activations& x, const batch::MicroBatch& micro,
                                const ForwardContext&) { return forward(i, x, micro); },
           .begins_block = true});
    return segments;
  }
  std::vector<models::LossHead> losses() override {
    std::vector<models::LossHead> heads{tokens()};
    if (faults_.two_losses) heads.push_back(marks());
    return heads;
  }

 private:
  models::LossHead tokens() {
    return {.name = "tokens",
            .forward =
                [this](const models::Activations& x, const batch::MicroBatch& micro,
                       const ForwardContext&, double) {
                  at::Tensor sum = at::cross_entropy_loss(
                      at::linear((x.at(0) + x.at(1)).flatten(0, 1),
                                 at::ones({kPipelineVocab, kPipelineWidth}, at::kDouble).tril()),
                      micro.targets.flatten(), {}, at::Reduction::Sum);
                  for (const std::int64_t id : micro.sample_ids)
                    if (faults_.losses.contains(id)) sum = sum / 0.0;
                  return Loss{sum, static_cast<double>(micro.targets.numel())};
                },
            .weight =
                [](const batch::MicroBatch& micro) {
                  return static_cast<double>(micro.targets.numel());
                }};
  }
  models::LossHead marks() {
    return {.name = "marks",
            .forward =
                [this](const models::Activations& x, const batch::MicroBatch& micro,
                       const ForwardContext&, double) {
                  at::Tensor sum = at::zeros({}, at::kDouble);
                  for (std::size_t row = 0; row < micro.sample_ids.size(); ++row)
                    if (is_marked(micro.sample_ids[row]))
                      sum = sum + x.at(0)[static_cast<std::int64_t>(row)].square().sum();
                  return Loss{faults_.forgets_one ? sum * 0 : sum, marks_in(micro)};
                },
            .weight = marks_in,
            .coefficient = 0.3};
  }
  models::Activations forward(std::int64_t layer, const models::Activations& x,
                              const batch::MicroBatch& micro) {
    const at::Tensor& weight = parameters_[static_cast<std::size_t>(layer)].tensor;
    at::Tensor y =
        layer == 0 ? at::embedding(weight, micro.inputs) : at::tanh(at::linear(x.at(0), weight));
    for (const std::int64_t id : micro.sample_ids) {
      const auto fault = faults_.gradients.find(id);
      if (fault != faults_.gradients.end() && fault->second == layer)
        y = y + accrue::testing::Poison::apply(faults_.spreads ? y : weight);
      const auto large = faults_.large.find(id);
      if (large != faults_.large.end() && large->second == layer)
        y = y + accrue::testing::Poison::apply(weight, kLarge);
    }
    return {y, layer == 0 ? y.detach() : x.at(1) + y};
  }

  PlantedFaults faults_;
  NamedParameters parameters_;
};

/// The result of a window on one rank.
struct StageOutcome {
  std::vector<at::Tensor> gradients;  ///< means; empty if there is none
  WindowRun run;
  std::vector<std::string> told;
};

/// Adds up the sums of ranks that each have one stage.
class SumOfStages final : public testing::SumOfRanks {
 public:
  SumOfStages(distributed::DeferredReduce& reduce, std::int64_t stages)
      : SumOfRanks(reduce), stages_(stages) {}
  void close(accum::Window& window, WindowRun& run) override {
    SumOfRanks::close(window, run);
    run.quarantined /= stages_;
  }

 private:
  std::int64_t stages_;
};

using testing::Told;

inline void run_window(Runner& runner, accum::Window& window, Parallelism& parallelism, Told& told,
                       StageOutcome& outcome) {
  try {
    outcome.run = train::run_window({window, runner, parallelism, told.retries, told.log},
                                    WindowRequest::even(3, {0, kPipelineSamples}, kPipelineMicro));
  } catch (const std::exception& error) {
    outcome.run.lost_reason = error.what();
  }
  for (const Event& event : told.recorder->events) outcome.told.push_back(event.reason);
  if (outcome.run.gradient) {
    outcome.run.gradient->materialize();
    for (const auto& entry : window.buffer()->entries())
      outcome.gradients.push_back(entry.slot->main.clone());
  }
}

inline data::Loader make_loader(const PlantedFaults& faults) {
  auto samples = std::make_shared<PipelineSamples>();
  samples->damage(faults.unreadable);
  return {std::move(samples), batch::Sampler(kPipelineSamples, batch::Order::sequential, 0)};
}

inline constexpr double kGenerous = 0.5;  ///< the share of a window that may be left out

inline StageOutcome run_alone(const PlantedFaults& faults, accum::Accumulation accumulation) {
  Layers model(faults);
  accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters(), accumulation));
  data::Loader loader = make_loader(faults);
  StageOutcome outcome;
  Told told;
  SingleProcess alone;
  MicroBatchRunner runner({model, window, loader, 1, told.log, told.control, told.retries},
                          {.max_quarantined = kGenerous});
  run_window(runner, window, alone, told, outcome);
  return outcome;
}

inline std::vector<StageOutcome> run_stages(const PlantedFaults& faults,
                                            accum::Accumulation accumulation, std::int64_t stages,
                                            double max_quarantined = kGenerous) {
  std::vector<std::unique_ptr<Layers>> models;
  for (std::int64_t rank = 0; rank < stages; ++rank)
    models.push_back(std::make_unique<Layers>(faults));
  std::vector<StageOutcome> outcomes(models.size());
  testing::run_thread_ranks(models.size(), [&](std::size_t rank, const auto& group) {
    Layers& model = *models[rank];
    const auto buffer = std::make_shared<accum::GradientBuffer>(model.parameters(), accumulation);
    distributed::DeferredReduce reduce(group, buffer, {.overlap = false});
    accum::Window window(buffer);
    window.set_reduction(&reduce);
    data::Loader loader = make_loader(faults);
    Told told;
    SumOfStages sums(reduce, stages);
    PipelineRunner runner({model, window, loader, 1, told.log, told.control, told.retries},
                          make_pipeline_stage(group, model, loader.fetch({0, 1})),
                          {.max_quarantined = max_quarantined, .reduce = &reduce});
    run_window(runner, window, sums, told, outcomes[rank]);
    if (outcomes[rank].run.lost_reason.empty()) group->barrier("the end");
  });
  return outcomes;
}

inline void expect_equal(const std::vector<StageOutcome>& stages, const StageOutcome& alone) {
  for (std::size_t rank = 0; rank < stages.size(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const StageOutcome& stage = stages[rank];
    EXPECT_THAT(stage.run.lost_reason, ::testing::IsEmpty());
    ASSERT_EQ(stage.gradients.size(), alone.gradients.size());
    for (std::size_t i = 0; i < alone.gradients.size(); ++i)
      EXPECT_TRUE(at::equal(stage.gradients[i], alone.gradients[i])) << "layer " << i;
    EXPECT_EQ(stage.run.loss_sum, alone.run.loss_sum);
    EXPECT_EQ(stage.run.weight, alone.run.weight);
    EXPECT_EQ(stage.run.tokens, alone.run.tokens);
    EXPECT_EQ(stage.run.quarantined, alone.run.quarantined);
  }
}

inline std::vector<std::string> told_by_all(const std::vector<StageOutcome>& stages) {
  std::vector<std::string> told;
  for (const StageOutcome& stage : stages)
    told.insert(told.end(), stage.told.begin(), stage.told.end());
  return told;
}

inline constexpr auto kAccumulations = {accum::Accumulation::fp32, accum::Accumulation::fp64,
                                        accum::Accumulation::fixed};

}  // namespace accrue::train::stages
