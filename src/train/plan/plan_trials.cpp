#include "train/plan/plan_trials.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "accrue/core/clock.h"
#include "accrue/device/device.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/offload.h"
#include "accrue/memory/shard_scope.h"
#include "data/fetch.h"
#include "train/config/accumulation_order.h"
#include "train/pass/run_micro_batch.h"
#include "train/plan/activation_placement.h"
#include "train/window/layered/layered_window.h"
#include "train/window/layered/model_division.h"
#include "train/workload/placement.h"

namespace accrue::train {
namespace {

/// The most micro-batches that exist at once, in a replay: the running one, the one that it is
/// fetched again for, and two that the loader has ready.
constexpr std::size_t micro_batches_at_once = 4;

/// The samples of the micro-batch that takes the most memory: the longest ones.
std::vector<std::int64_t> longest_samples(const data::Source& source, std::int64_t count) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(
      source.uniform_tokens() ? std::min(count, source.size()) : source.size()));
  std::iota(samples.begin(), samples.end(), 0);
  if (source.uniform_tokens()) return samples;
  const auto kept = samples.begin() + std::min<std::ptrdiff_t>(count, std::ssize(samples));
  std::partial_sort(samples.begin(), kept, samples.end(), [&](std::int64_t a, std::int64_t b) {
    return source.tokens(a) > source.tokens(b);
  });
  samples.erase(kept, samples.end());
  return samples;
}

/// Memory of the size that the layered order will keep of a window, if it keeps that in memory.
at::Tensor hold_cuts(const Workload& work) {
  if (!is_layered(work.config, *work.model)) return {};
  const ActivationPlacement place =
      choose_activation_placement(work, work.schedule.samples_per_window);
  return place.in_file ? at::Tensor() : at::empty({place.bytes}, at::kByte);
}

/// Memory of the size of another rank's slice that this one keeps, if it does.
at::Tensor hold_replica(const Workload& work, const optim::Optimizer& optimizer) {
  const bool keeps_one =
      work.slice != RankSlice{} && work.config.dist.shard_replica == ShardReplica::next;
  return keeps_one ? at::empty({optimizer.state_bytes()}, at::kByte) : at::Tensor();
}

/// Memory of the size that decoding takes while a micro-batch runs: the loader decodes the next
/// one, and a replay decodes its own.
at::Tensor hold_decoding(const Workload& work) {
  constexpr std::int64_t kDecodersAtOnce = 2;
  const std::int64_t held_out = work.data.val ? work.data.val->decoding().bytes : 0;
  const std::int64_t bytes = std::max(work.data.train->decoding().bytes, held_out);
  return bytes == 0 || memory::device_room() ? at::Tensor()
                                             : at::empty({kDecodersAtOnce * bytes}, at::kByte);
}

std::int64_t bytes_held(const at::Tensor& bytes) { return bytes.defined() ? bytes.numel() : 0; }

/// Offloaded state does not count in the budget, nor do parameters and sums that ranks divide.
memory::Resident state_in_memory(const Workload& work, const accum::GradientBuffer& buffer,
                                 const optim::Optimizer& optimizer, std::int64_t replica,
                                 std::int64_t cuts) {
  if (memory::is_offloading() || memory::has_shard_scope()) {
    const memory::Usage usage = memory::usage();
    return {.parameters = usage.live_as(MemoryTag::parameters),
            .gradients = usage.live_as(MemoryTag::gradients),
            .optimizer = usage.live_as(MemoryTag::optimizer),
            .cuts = cuts};
  }
  return {.parameters = bytes_of(*work.model),
          .gradients = buffer.bytes(),
          .optimizer = optimizer.state_bytes() + replica,
          .cuts = cuts};
}

}  // namespace

PlanTrials::PlanTrials(const Workload& work)
    : work_(work),
      device_(device_of(*work.model)),
      buffers_(*work.model),
      cuts_(hold_cuts(work)),
      optimizer_(make_optimizer(work.config, work.model->parameters(), work.slice)),
      replica_(hold_replica(work, *optimizer_)),
      window_(make_gradient_buffer(work.config, *work.model)),
      resident_(state_in_memory(work, *window_.buffer(), *optimizer_, bytes_held(replica_),
                                bytes_held(cuts_))),
      segment_state_(*window_.buffer(), work.model->segments()),
      shards_(make_shards()),
      divided_(*window_.buffer(), shards_.get(), /*reduce=*/nullptr),
      runs_(resident_, [this] { undo(); }),
      longest_(longest_samples(*work.data.train, work.schedule.samples_per_window)) {}

std::unique_ptr<distributed::ParameterShards> PlanTrials::make_shards() const {
  if (!memory::has_shard_scope() || work_.slice == RankSlice{}) return nullptr;
  return std::make_unique<distributed::ParameterShards>(
      work_.slice, window_.buffer(),
      division_of(*work_.model, optim::trained_of(work_.model->parameters())));
}

PlanTrials::Input PlanTrials::fetch(std::int64_t samples) const {
  std::vector<std::int64_t> indices, ids(static_cast<std::size_t>(samples));
  std::iota(ids.begin(), ids.end(), 0);
  for (const std::int64_t id : ids)
    indices.push_back(longest_[static_cast<std::size_t>(id) % longest_.size()]);
  Input input;
  for (std::size_t i = 0; i < micro_batches_at_once; ++i)
    input.micros.push_back(data::fetch_full(*work_.data.train, indices, ids));
  input.decoding = hold_decoding(work_);
  return input;
}

/// Counts the copies that layers keep of their weights, which the first micro-batch creates.
memory::Resident PlanTrials::resident() const {
  memory::Resident resident = resident_;
  const memory::Usage usage = memory::usage();
  resident.parameters = std::max(
      resident.parameters, usage.live_as(MemoryTag::parameters) + usage.live_as(MemoryTag::packed));
  return resident;
}

/// Leaves no window open, and restores running statistics.
void PlanTrials::undo() {
  window_.discard();
  divided_.leave();
  buffers_.restore();
}

memory::Measured PlanTrials::run(const memory::PlanPoint& point) {
  return runs_.run(point, [&]() -> TrialRuns::Pass {
    return [this, input = fetch(point.micro_batch), recompute = point.recompute] {
      return pass(input.micros.front(), recompute);
    };
  });
}

memory::Measured PlanTrials::measure_again(const memory::PlanPoint& point) {
  runs_.forget(point);
  return run(point);
}

TrialRuns::Seconds PlanTrials::pass(const batch::MicroBatch& micro, Recompute recompute) {
  const TrialRuns::Seconds seconds = open_and_pass(micro, recompute);
  window_.discard();
  divided_.leave();
  return seconds;
}

/// Runs a pass and leaves the window open.
TrialRuns::Seconds PlanTrials::open_and_pass(const batch::MicroBatch& micro, Recompute recompute) {
  const PassOptions options{.factors = std::vector<double>(work_.model->losses().size(), 1.0),
                            .recompute = recompute};
  const double waited_before = memory::offload_usage().wait_seconds;
  const Stopwatch watch;
  RECORD_USER_SCOPE("plan: trial");
  window_.open(0);
  if (asks_for_layered(work_.config)) {
    pass_layered(micro, options);
  } else {
    run_micro_batch(window_, *work_.model, {.index = 0, .sample_ids = micro.sample_ids}, micro,
                    batch::training_context(micro, work_.config.run.seed, 0), options);
  }
  device::synchronize(device_);
  return {.all = watch.seconds(), .waited = memory::offload_usage().wait_seconds - waited_before};
}

/// The micro-batch as a window in layered order: the graph is that of one segment at a time, and
/// offloaded state comes and goes with the segments. Batch normalisation takes the statistics of
/// the micro-batch, since one sample alone may not have those of a window.
void PlanTrials::pass_layered(const batch::MicroBatch& micro, const PassOptions& options) {
  LayeredOptions layered{.losses = [&] { return options; }, .window_statistics = false};
  segment_state_.attach_to(layered);
  divided_.attach_to(layered);
  LayeredWindow pass(
      *work_.model, window_, [&](batch::Range) { return micro; }, work_.config.run.seed,
      std::move(layered));
  const std::array whole{batch::Range{0, std::ssize(micro.sample_ids)}};
  pass.run(0, whole);
}

PlanTrials::Step PlanTrials::run_step(const memory::PlanPoint& point) {
  Step step{.micro = measure_again(point)};
  if (!step.micro.fits) return step;
  const memory::Measured whole = runs_.attempt([&] {
    const Input input = fetch(point.micro_batch);
    const TrialRuns::Seconds seconds = open_and_pass(input.micros.front(), point.recompute);
    step.closing_seconds = close_and_step();
    return seconds;
  });
  if (!whole.fits) return {.micro = whole};
  step.micro.peak_bytes = std::max(step.micro.peak_bytes, whole.peak_bytes);
  return step;
}

/// Seconds of close and step; none if there is no gradient to step with: the window is then
/// dropped.
std::optional<double> PlanTrials::close_and_step() {
  if (window_.buffer()->folds() || shards_) {
    undo();
    return std::nullopt;
  }
  const Stopwatch watch;
  std::optional<accum::MeanGradient> gradient = window_.close();
  if (!gradient) return std::nullopt;
  if (work_.config.optim.clip > 0) gradient->clip(work_.config.optim.clip);
  optimizer_->step(std::move(*gradient), /*lr=*/0);
  device::synchronize(device_);
  return watch.seconds();
}

}  // namespace accrue::train
