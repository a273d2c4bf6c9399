#include "train/ranks/ranks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <tuple>

#include "accrue/core/error.h"
#include "accrue/memory/shard_scope.h"
#include "accrue/models/normalisation.h"
#include "accrue/version.h"
#include "core/words.h"
#include "train/config/data_paths.h"
#include "train/plan/setup.h"
#include "train/ranks/meeting.h"
#include "train/ranks/outer_settings.h"
#include "train/ranks/rank_conflicts.h"
#include "train/window/layered/model_division.h"
#include "train/workload/placement.h"

namespace accrue::train {
namespace {

/// Whether a key may differ between machines without changing a step. The data themselves are
/// compared, and so is the order that memory.offload needs.
bool is_of_the_machine(const std::string& key) {
  // The measured noise is part of the row that ranks exchange.
  if (key == "observe.noise") return false;
  return names_data_files(key) || key == "run.threads" || key == "run.limits" ||
         key == "memory.offload" || key.starts_with("memory.budget") || key.starts_with("observe.");
}

distributed::Facts facts_of(const Config& config) {
  distributed::Facts facts;
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

/// Ranks whose sums lie on other devices, or that move them in another way, would wait for ever.
distributed::Facts facts_of_place(const Workload& work) {
  const c10::Device device = device_of(*work.model);
  distributed::Facts facts{
      {"where the model lies", c10::DeviceTypeName(device.type(), /*lower_case=*/true)}};
  if (device.is_cpu()) return facts;
  const bool by_nccl = group_options(work.config).device_engine == distributed::DeviceEngine::nccl;
  facts.emplace_back("what moves the sums of GPUs", by_nccl ? "NCCL" : "Gloo");
  return facts;
}

/// The trained parameters, in order of the buffer's entries.
NamedParameters parameters_in(const accum::GradientBuffer& buffer) {
  NamedParameters trained;
  for (const auto& entry : buffer.entries()) trained.push_back({entry.name, entry.parameter});
  return trained;
}

}  // namespace

const MicroDecision& most_frugal(const std::vector<MicroDecision>& decisions) {
  return *std::ranges::min_element(decisions, {}, [](const MicroDecision& decision) {
    return std::tuple(decision.samples, -static_cast<int>(decision.recompute));
  });
}

RankRecord most_frugal_record(const std::vector<RankRecord>& ranks) {
  std::vector<MicroDecision> decisions;
  decisions.reserve(ranks.size());
  for (const RankRecord& record : ranks)
    decisions.push_back({.samples = record.micro_batch, .recompute = record.recompute});
  const MicroDecision& common = most_frugal(decisions);
  return {.micro_batch = common.samples, .recompute = common.recompute};
}

std::vector<RankRecord> records_for(std::int64_t world, const std::vector<RankRecord>& kept,
                                    bool alike) {
  const auto ranks = static_cast<std::size_t>(world);
  if (kept.size() == ranks && (!alike || have_one_size(kept))) return kept;
  return {ranks, most_frugal_record(kept)};
}

batch::Range equal_share_of(batch::Range samples, std::int64_t rank, std::int64_t world) {
  const std::vector<std::int64_t> counts = batch::micro_batches_per_rank(samples.size(), 1, world);
  const std::int64_t begin = std::accumulate(counts.begin(), counts.begin() + rank, samples.begin);
  return {begin, begin + counts[static_cast<std::size_t>(rank)]};
}

void Ranks::check_divisible(const Workload& work) const {
  const auto refuse = [&](const std::string& key, const std::string& expected,
                          const std::string& received, const std::string& suggestion) {
    throw refusal_of({key, expected, received, suggestion}, world());
  };
  const bool share_windows = work.config.dist.stages == 1 && !work.config.dist.takes_outer_steps();
  const auto found = models::find_batch_norms(*work.model);
  if (!found.none() && !(takes_window_statistics(work.config, *work.model) && share_windows))
    refuse("model.batchnorm", "a model whose statistics are those of all ranks, or that takes none",
           in_quotes(to_string(work.config.model.batchnorm)) +
               ", whose statistics would be each rank's own",
           !found.uncut.empty() ? "one process, or the model saved with group normalisation"
           : share_windows      ? "batchnorm = \"exact\", or \"convert-group\""
                                : "batchnorm = \"convert-group\"");
  if (work.model->losses().size() > 1 && work.config.dist.takes_outer_steps())
    refuse("dist.local_steps", "one loss",
           "several, whose total weights would be each rank's own in steps that it takes alone",
           "ranks that share windows (local_steps = 1), or one process");
  if (const auto conflict = conflict_of(work.config, world(), device_of(*work.model)))
    throw refusal_of(*conflict, world());
}

void Ranks::begin(const Workload& work, const std::string& data_fingerprint,
                  const distributed::Facts& start) const {
  expect_enough_ranks(work.config, world());
  if (!group_) return;
  distributed::Facts facts{{"version", version}, {"ranks", std::to_string(world())}};
  facts.insert(facts.end(), start.begin(), start.end());
  for (auto& fact : facts_of_place(work)) facts.push_back(std::move(fact));
  for (auto& fact : facts_of(work.config)) facts.push_back(std::move(fact));
  facts.emplace_back("data", data_fingerprint);
  facts.emplace_back("shapes of the parameters",
                     distributed::shape_digest(work.model->parameters()));
  distributed::exchange_facts(*group_, "who takes part", facts);
  check_divisible(work);
}

void Ranks::check_state(const Workload& work, const optim::Optimizer& optimizer,
                        std::int64_t step) const {
  if (!group_) return;
  // No other rank has the values of a part.
  NamedParameters whole = work.model->parameters();
  std::erase_if(whole, [](const NamedParameter& parameter) {
    return memory::is_kept_in_part(parameter.tensor);
  });
  distributed::Facts facts{{"step", std::to_string(step)},
                           {"values of the parameters", distributed::value_digest(whole)}};
  if (slice(work.config) == RankSlice{})
    facts.emplace_back("the optimizer's state", distributed::value_digest(optimizer.state()));
  distributed::exchange_facts(*group_, "where the run begins", facts);
}

std::vector<MicroDecision> Ranks::agree(MicroDecision mine, bool alike) const {
  if (!group_) return {std::move(mine)};
  const at::Tensor own =
      at::tensor({mine.samples, static_cast<std::int64_t>(mine.recompute)}, at::kLong);
  const at::Tensor rows = group_->all_gather(own);
  std::vector<MicroDecision> decisions;
  for (std::int64_t rank = 0; rank < world(); ++rank)
    decisions.push_back({.samples = rows[rank][0].item<std::int64_t>(),
                         .recompute = static_cast<Recompute>(rows[rank][1].item<std::int64_t>()),
                         .reason = rank == group_->rank() ? mine.reason : ""});
  if (!alike) return decisions;
  MicroDecision agreed = most_frugal(decisions);
  const bool is_mine = agreed.samples == mine.samples && agreed.recompute == mine.recompute;
  agreed.reason = is_mine ? mine.reason : "the least that fits on all ranks";
  return {decisions.size(), agreed};
}

batch::Range Ranks::equal_share(batch::Range samples) const {
  return group_ ? equal_share_of(samples, group_->rank(), world()) : samples;
}

void Ranks::check_resumable(const std::optional<std::int64_t>& inner_optimizers) const {
  if (!inner_optimizers || *inner_optimizers == world()) return;
  throw usage_error(
      "resume",
      std::to_string(*inner_optimizers) + " ranks, whose inner optimizers the checkpoint holds",
      std::to_string(world()), "as many ranks as before, or a new run.out");
}

std::unique_ptr<distributed::OuterRounds> Ranks::make_rounds(
    const Config& config, const NamedParameters& parameters, std::size_t rank_sums,
    std::size_t requests, std::function<void(const std::string&)> say_waiting) const {
  return std::make_unique<distributed::OuterRounds>(
      group_, parameters,
      distributed::OuterRounds::Setting{.outer = outer_settings(config.dist),
                                        .compress = config.dist.compress,
                                        .rank_sums = rank_sums,
                                        .requests = requests,
                                        .say_waiting = std::move(say_waiting)});
}

PipelineStage Ranks::make_stage(models::Trainable& model, const batch::MicroBatch& micro) const {
  return make_pipeline_stage(group_, model, micro);
}

std::unique_ptr<distributed::DeferredReduce> Ranks::make_reduce(
    const Config& config, std::shared_ptr<accum::GradientBuffer> buffer,
    std::vector<bool> in_passes) const {
  // A window that the stages of a pipeline run again must not have sums in transit.
  const bool overlap = config.dist.reduce == Reduce::overlap && config.dist.stages == 1;
  distributed::ReduceOptions options{
      .overlap = overlap, .compress = config.dist.compress, .in_passes = std::move(in_passes)};
  if (slice(config) != RankSlice{}) {
    options.sharding = std::make_shared<distributed::Sharding>(group_, parameters_in(*buffer));
  }
  return std::make_unique<distributed::DeferredReduce>(group_, std::move(buffer),
                                                       std::move(options));
}

RankSlice Ranks::slice(const Config& config) const {
  if (!group_ || config.dist.shard == Shard::none) return {};
  return {group_->rank(), group_->world()};
}

std::unique_ptr<distributed::ParameterShards> Ranks::make_shards(
    const Config& config, models::Trainable& model,
    std::shared_ptr<accum::GradientBuffer> buffer) const {
  if (!divide_model(config)) return nullptr;
  distributed::ModelDivision division = division_of(model, parameters_in(*buffer));
  return std::make_unique<distributed::ParameterShards>(group_, std::move(buffer),
                                                        std::move(division));
}

std::unique_ptr<ShardedOptimizer> Ranks::make_sharded(const Workload& work,
                                                      optim::Optimizer& own) const {
  if (slice(work.config) == RankSlice{}) return nullptr;
  NamedParameters trained = optim::trained_of(work.model->parameters());
  std::vector<bool> divided;
  if (divide_model(work.config)) divided = division_of(*work.model, trained).divided;
  const bool is_copied = work.config.dist.shard_replica == ShardReplica::next;
  return std::make_unique<ShardedOptimizer>(
      own, std::make_unique<distributed::Sharding>(group_, std::move(trained), std::move(divided)),
      is_copied ? std::make_unique<SliceReplica>(group_, own) : nullptr);
}

bool Ranks::broadcast_first(bool mine) const {
  if (!group_) return mine;
  const at::Tensor said = at::full({1}, mine ? 1 : 0, at::kByte);
  group_->broadcast(said, 0, "what the first rank decided");
  return said.item<std::uint8_t>() != 0;
}

bool Ranks::all_true(bool mine) const {
  if (!group_) return mine;
  at::Tensor against = at::full({1}, mine ? 0 : 1, at::kDouble);
  group_->start_sum(against, "what the ranks decided")->wait();
  return against.item<double>() == 0;
}

std::vector<NamedParameters> Ranks::states_of_others(const NamedParameters& mine) const {
  if (!group_) return {};
  const std::int64_t others = is_first() ? world() - 1 : 0;
  std::vector<NamedParameters> states(static_cast<std::size_t>(others));
  for (const auto& [name, tensor] : mine) {
    const at::Tensor bytes = tensor.contiguous().view({-1}).view(at::kByte);
    const at::Tensor gathered = group_->gather(bytes, 0, "the optimizers' states");
    for (std::size_t other = 0; other < states.size(); ++other)
      states[other].push_back({name, gathered[static_cast<std::int64_t>(other) + 1]
                                         .view(tensor.scalar_type())
                                         .view(tensor.sizes())});
  }
  return states;
}

std::vector<double> Ranks::add_up(const std::vector<double>& mine, std::string_view what) const {
  if (!group_) return mine;
  at::Tensor values = at::tensor(mine, at::kDouble);
  group_->start_sum(values, what)->wait();
  const double* first = values.const_data_ptr<double>();
  return {first, first + values.numel()};
}

std::vector<std::string> Ranks::gather_long_texts(const std::string& mine) const {
  const std::vector<std::int64_t> sizes = gather_numbers(std::ssize(mine));
  if (!group_) return {mine};
  const at::Tensor own = at::zeros({std::ranges::max(sizes)}, at::kByte);
  std::ranges::copy(mine, own.mutable_data_ptr<std::uint8_t>());
  const at::Tensor rows = group_->all_gather(own);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    const at::Tensor row = rows[static_cast<std::int64_t>(rank)].contiguous();
    const std::uint8_t* first = row.const_data_ptr<std::uint8_t>();
    texts.emplace_back(first, first + sizes[rank]);
  }
  return texts;
}

std::vector<std::int64_t> Ranks::gather_numbers(std::int64_t mine) const {
  std::vector<std::int64_t> all;
  for (const std::vector<std::int64_t>& numbers : gather_numbers(std::vector{mine}))
    all.push_back(numbers.front());
  return all;
}

std::vector<std::vector<std::int64_t>> Ranks::gather_numbers(
    const std::vector<std::int64_t>& mine) const {
  if (!group_) return {mine};
  const at::Tensor all = group_->all_gather(at::tensor(mine, at::kLong)).contiguous();
  const std::int64_t* next = all.const_data_ptr<std::int64_t>();
  std::vector<std::vector<std::int64_t>> by_rank;
  for (std::int64_t rank = 0; rank < world(); ++rank, next += mine.size())
    by_rank.emplace_back(next, next + mine.size());
  return by_rank;
}

void Ranks::receive(const at::Tensor& values, std::int64_t from, std::string_view what) const {
  group_->start_receive(values, from, what)->wait();
}

void Ranks::broadcast(const at::Tensor& values, std::int64_t from, std::string_view what) const {
  group_->broadcast(values, from, what);
}

bool Ranks::may_go_on(const Workload& work) const {
  return group_ && group_->may_be_renewed() && device_of(*work.model).is_cpu();
}

void Ranks::finish() const {
  if (!group_) return;
  try {
    group_->barrier("the end of the run");
  } catch (const distributed::RanksGone&) {
    if (!group_->may_be_renewed()) throw;
  }
}

void Ranks::fail(const std::string& reason) const noexcept {
  if (group_) group_->fail(reason);
}

}  // namespace accrue::train
