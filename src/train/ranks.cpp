#include "ranks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <tuple>

#include "accrue/core/error.h"
#include "accrue/models/normalisation.h"
#include "accrue/train/gradient_folding.h"
#include "accrue/version.h"

namespace accrue::train {
namespace {

/// What may differ between machines without changing a step.
bool is_of_the_machine(const std::string& key) {
  return key == "run.threads" || key.starts_with("memory.budget") || key.starts_with("observe.");
}

dist::Facts facts_of(const Config& config) {
  dist::Facts facts;
  std::istringstream lines(to_toml(config));
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) section = line.substr(1, line.size() - 2) + ".";
    const std::size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    std::string key = section + line.substr(0, equals);
    if (!is_of_the_machine(key)) facts.emplace_back(std::move(key), line.substr(equals + 3));
  }
  return facts;
}

/// What a config states that several ranks cannot do, or not alike.
std::optional<Conflict> conflict_of(const Config& config) {
  if (folds_gradients(config)) {
    const std::string expected = "gradients in a buffer, whose sums the ranks add";
    if (config.optim.kind == "adama")
      return Conflict{"optim.kind", expected, "\"adama\", which folds them into its moments",
                      "kind = \"adamw\""};
    return Conflict{"memory.gradients", expected, "\"optimizer\"", "gradients = \"buffer\""};
  }
  if (!dist::adds_up(accum::parse_accumulation(config.precision.accumulate)))
    return Conflict{"precision.accumulate", "\"fp32\", \"fp64\" or \"fixed\"",
                    "\"" + config.precision.accumulate + "\", whose sums ranks would round again",
                    "accumulate = \"fp32\""};
  if (config.memory.budget == "auto")
    return Conflict{"memory.budget", "a size, for each rank",
                    "\"auto\", with which each would take the whole machine", "budget = \"4GiB\""};
  if (config.run.eval_every && config.run.eval_every->unit == Duration::Unit::seconds)
    return Conflict{"run.eval_every", "steps or tokens, which come at once on all ranks",
                    "a time, by each rank's own clock", "eval_every = \"100 steps\""};
  return std::nullopt;
}

}  // namespace

const MicroDecision& most_frugal(const std::vector<MicroDecision>& decisions) {
  return *std::ranges::min_element(decisions, {}, [](const MicroDecision& decision) {
    return std::tuple(decision.samples, -static_cast<int>(decision.recompute));
  });
}

batch::Range share_of(batch::Range window, std::int64_t micro, std::int64_t rank,
                      std::int64_t world) {
  const std::vector<std::int64_t> counts =
      batch::micro_batches_per_rank(window.size(), micro, world);
  const std::int64_t before =
      std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
  const auto at = [&](std::int64_t micro_batches) {
    return std::min(window.begin + micro_batches * micro, window.end);
  };
  return {at(before), at(before + counts[static_cast<std::size_t>(rank)])};
}

void Ranks::check_divisible(const Workload& work) const {
  const auto refuse = [&](const std::string& key, const std::string& expected,
                          const std::string& received, const std::string& suggestion) {
    throw usage_error(key + " with " + std::to_string(world()) + " ranks", expected, received,
                      suggestion);
  };
  if (!models::find_batch_norms(*work.model).none())
    refuse("model.batchnorm", "a model without batch normalisation",
           "\"" + work.config.model.batchnorm + "\", whose statistics would be each rank's own",
           "batchnorm = \"convert-group\"");
  if (work.model->losses().size() > 1)
    refuse("train", "one loss", "several, whose total weights would be each rank's own",
           "one process");
  if (const auto conflict = conflict_of(work.config))
    refuse(conflict->key, conflict->expected, conflict->received, conflict->suggestion);
}

void Ranks::begin(const Workload& work, const std::string& data_fingerprint,
                  const dist::Facts& start) const {
  if (!group_) return;
  dist::Facts facts{{"version", version}, {"ranks", std::to_string(world())}};
  facts.insert(facts.end(), start.begin(), start.end());
  for (auto& fact : facts_of(work.config)) facts.push_back(std::move(fact));
  facts.emplace_back("data", data_fingerprint);
  facts.emplace_back("shapes of the parameters", dist::shape_digest(work.model->parameters()));
  dist::shake_hands(*group_, "who takes part", facts);
  check_divisible(work);
}

void Ranks::check_state(const Workload& work, const optim::Optimizer& optimizer,
                        std::int64_t step) const {
  if (!group_) return;
  dist::shake_hands(*group_, "where the run begins",
                    {{"step", std::to_string(step)},
                     {"values of the parameters", dist::value_digest(work.model->parameters())},
                     {"the optimizer's state", dist::value_digest(optimizer.state())}});
}

MicroDecision Ranks::agree(MicroDecision mine) const {
  if (!group_) return mine;
  const at::Tensor own =
      at::tensor({mine.samples, static_cast<std::int64_t>(mine.recompute)}, at::kLong);
  const at::Tensor rows = group_->all_gather(own);
  std::vector<MicroDecision> decisions;
  for (std::int64_t rank = 0; rank < world(); ++rank)
    decisions.push_back({.samples = rows[rank][0].item<std::int64_t>(),
                         .recompute = static_cast<Recompute>(rows[rank][1].item<std::int64_t>())});
  MicroDecision agreed = most_frugal(decisions);
  const bool is_mine = agreed.samples == mine.samples && agreed.recompute == mine.recompute;
  agreed.reason = is_mine ? mine.reason : "the least that fits on all ranks";
  return agreed;
}

batch::Range Ranks::share(batch::Range window, std::int64_t micro) const {
  return group_ ? share_of(window, micro, group_->rank(), world()) : window;
}

std::unique_ptr<dist::DeferredReduce> Ranks::make_reduce(
    const Config& config, std::shared_ptr<accum::GradientBuffer> buffer) const {
  if (!group_) return nullptr;
  return std::make_unique<dist::DeferredReduce>(
      group_, std::move(buffer), dist::ReduceOptions{.overlap = config.dist.reduce == "overlap"});
}

std::vector<double> Ranks::add_up(const std::vector<double>& mine) const {
  if (!group_) return mine;
  at::Tensor values = at::tensor(mine, at::kDouble);
  group_->start_sum(values, "the evaluation")->wait();
  const double* first = values.const_data_ptr<double>();
  return {first, first + values.numel()};
}

void Ranks::finish() const {
  if (group_) group_->barrier("the end of the run");
}

void Ranks::fail(const std::string& reason) const noexcept {
  if (group_) group_->fail(reason);
}

}  // namespace accrue::train
