#include "verify/config/ranked_window.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/distributed/group.h"
#include "core/helper_thread.h"
#include "core/words.h"
#include "train/ranks/meeting.h"
#include "train/ranks/ranks.h"
#include "train/ranks/run_optimizer.h"
#include "verify/comparison.h"
#include "verify/config/host_tensors.h"
#include "verify/config/trained_window.h"

namespace accrue::proof {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

/// A port of the loopback interface, which the system gives to no other program while this exists.
/// A store can listen there: both allow that the address is in use, and this does not listen.
class ReservedPort {
 public:
  ReservedPort() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    constexpr int on = 1;
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    const bool is_bound =
        descriptor_ >= 0 &&
        ::setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        ::bind(descriptor_, address, size) == 0 && ::getsockname(descriptor_, address, &size) == 0;
    if (is_bound) return;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw runtime_error("verify with ranks", "a free port of 127.0.0.1", "none",
                        "a machine with a loopback interface");
  }
  ~ReservedPort() { ::close(descriptor_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  std::uint16_t number() const { return ::ntohs(address_.sin_port); }

 private:
  int descriptor_;
  sockaddr_in address_{};
};

/// The process already has its budget; a rank does not set another.
train::Config config_of_rank(train::Config config) {
  config.memory.budget = "none";
  return config;
}

/// Divides this process's threads among those of ranks, and restores them.
class SharedThreads {
 public:
  explicit SharedThreads(std::int64_t ranks)
      : all_(at::get_num_threads()), each_(std::max<std::int64_t>(1, all_ / ranks)) {}
  ~SharedThreads() { train::use_up_to(all_); }
  SharedThreads(const SharedThreads&) = delete;
  SharedThreads& operator=(const SharedThreads&) = delete;
  std::int64_t each() const { return each_; }

 private:
  std::int64_t all_, each_;
};

/// One rank's part in the windows, on a separate thread.
class Rank {
 public:
  /// Only a rank that `steps` has state of an optimizer.
  Rank(std::shared_ptr<distributed::Group> group, train::Workload work,
       const train::MicroDecision& micro, bool steps)
      : ranks_(std::move(group)), work_(std::move(work)), micro_(micro) {
    work_.slice = ranks_.slice(work_.config);
    ranks_.begin(work_, "", {});
    state_.ranks.assign(static_cast<std::size_t>(ranks_.world()),
                        {.micro_batch = micro.samples, .recompute = micro.recompute});
    if (steps) {
      optimizer_ = std::make_unique<train::RunOptimizer>(ranks_, work_);
    } else {
      const NamedParameters parameters = work_.model->parameters();
      without_state_ =
          optim::make_sgd(parameters, optim::default_groups(parameters, 0, false), {.momentum = 0});
    }
    loader_ = std::make_unique<data::Loader>(work_.data.train,
                                             train::make_sampler(work_.config, *work_.data.train));
    buffer_ = train::make_gradient_buffer(work_.config, *work_.model);
    shards_ = ranks_.make_shards(work_.config, *work_.model, buffer_);
    parallelism_ =
        train::make_parallelism({.config = work_.config,
                                 .ranks = ranks_,
                                 .model = *work_.model,
                                 .optimizer = steps ? optimizer_->whole() : *without_state_,
                                 .sharded = steps ? optimizer_->sharded() : nullptr,
                                 .buffer = buffer_,
                                 .shards = shards_.get(),
                                 .loader = *loader_,
                                 .state = state_,
                                 .micro_batch = micro.samples,
                                 .total_steps = 1,
                                 .log = log_,
                                 .control = control_});
    window_ = std::make_unique<TrainedWindow>(
        TrainedWindowContext{work_.config, *work_.model, *loader_, buffer_, work_.config.run.seed,
                             *parallelism_},
        train::RunnerOptions{.recompute = micro.recompute, .shards = shards_.get()});
  }

  void run_window() {
    const batch::Range all = work_.schedule.window(0);
    // Buckets begin in the order of the first window, which is reduced at its close. If passes
    // interleave, all windows are.
    if (work_.config.dist.reduce == train::Reduce::overlap && work_.config.dist.stages == 1 &&
        !train::is_layered(work_.config, *work_.model))
      run_share(0, {all.begin, all.begin + 1});
    run_ = run_share(0, all);
    ranks_.finish();
  }

  void take_steps(const std::vector<batch::Range>& windows, const TrainingParts& parts) {
    for (std::size_t i = 0; i < windows.size(); ++i) {
      train::WindowRun run = run_share(static_cast<std::int64_t>(i), windows[i]);
      if (run.gradient)
        parts.step(optimizer_->whole(), std::move(*run.gradient), work_.config.optim,
                   {ranks_.rank(), ranks_.world()});
    }
    ranks_.finish();
  }

  /// Copies of all parameters, as a window reads them. Collective if they are divided.
  std::vector<at::Tensor> parameters() const {
    const NamedParameters trained = optim::trained_of(work_.model->parameters());
    if (shards_ == nullptr) return copies_of(trained);
    std::vector<at::Tensor> copies(trained.size());
    const auto copy = [&](std::size_t entry) {
      copies[entry] = trained[entry].tensor.detach().clone();
    };
    for (std::size_t segment = 0; segment < work_.model->segments().size(); ++segment) {
      shards_->enter(segment, /*backward=*/false, std::nullopt);
      std::ranges::for_each(shards_->entries_of(segment), copy);
    }
    shards_->keep_own();
    for (std::size_t entry = 0; entry < trained.size(); ++entry)
      if (!copies[entry].defined()) copy(entry);
    return copies;
  }

  /// Adds this rank's part of the sums to `result`, and the totals of all ranks.
  void add_to(Gradients& result) const {
    result.weight = run_.weight;
    result.loss_sum = run_.loss_sum;
    const std::vector<double> errors = window_->accumulation_errors();
    // The values that optimizers read, times the weight.
    const double factor = run_.gradient ? run_.gradient->scale() * run_.weight : 0;
    const auto& entries = buffer_->entries();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const at::Tensor& whole = result.sums[i];
      const ElementRange part = element_range_of(whole.numel(), i, {ranks_.rank(), ranks_.world()});
      whole.view({-1})
          .narrow(0, part.begin, part.elements)
          .copy_(part_of_sum(entries[i], part) * factor);
      result.accumulation_errors[i] += errors[i];
    }
  }

 private:
  train::WindowRun run_share(std::int64_t index, batch::Range range) {
    train::WindowRun run =
        window_->run(index, batch::split(parallelism_->share(range), micro_.samples));
    parallelism_->window_done(index, run);
    return run;
  }

  train::Ranks ranks_;
  train::Workload work_;
  const train::MicroDecision& micro_;
  train::TrainState state_;
  train::RunLog log_;
  train::RunControl control_;
  std::unique_ptr<train::RunOptimizer> optimizer_;   ///< null unless it steps
  std::unique_ptr<optim::Optimizer> without_state_;  ///< null if it steps
  std::unique_ptr<data::Loader> loader_;
  std::shared_ptr<accum::GradientBuffer> buffer_;
  std::unique_ptr<distributed::ParameterShards> shards_;  ///< null: each rank has all parameters
  std::unique_ptr<train::Parallelism> parallelism_;
  std::unique_ptr<TrainedWindow> window_;
  train::WindowRun run_;
};

/// Ranks that are threads share a GPU if the model is on one, which NCCL refuses.
distributed::GroupOptions options_of(const train::Config& config) {
  distributed::GroupOptions options = train::group_options(config);
  options.device_engine = distributed::DeviceEngine::gloo;
  return options;
}

/// The work of each rank, on its own thread.
using RankTask = std::function<void(std::shared_ptr<distributed::Group>, train::Workload)>;

/// The objects that ranks share: their store, and the first error.
struct Meeting {
  distributed::Launch launch;
  distributed::GroupOptions options;
  std::mutex mutex;
  std::exception_ptr first_error;  ///< the others only report that there was one
};

void run_rank(Meeting& meeting, int index, std::int64_t threads, train::Workload work,
              const RankTask& task) {
  std::shared_ptr<distributed::Group> group;
  try {
    distributed::Launch launch = meeting.launch;
    launch.rank = launch.local_rank = index;
    group = distributed::connect(launch, meeting.options);
    train::use_up_to(threads);
    task(group, std::move(work));
  } catch (const std::exception& error) {
    {
      const std::scoped_lock lock(meeting.mutex);
      if (!meeting.first_error) meeting.first_error = std::current_exception();
    }
    if (group) group->fail(error.what());
  }
}

/// Runs `task` for each of `models`, as ranks of `work` that are threads of this process, and
/// throws the first exception of a rank.
void run_on_ranks(const train::Workload& work, std::vector<std::unique_ptr<models::Model>> models,
                  const RankTask& task) {
  const std::int64_t ranks = std::ssize(models);
  const ReservedPort port;
  Meeting meeting{.launch = {.world = static_cast<int>(ranks),
                             .local_world = static_cast<int>(ranks),
                             .master_addr = kLoopback,
                             .master_port = port.number()},
                  .options = options_of(work.config)};
  {
    const SharedThreads shared(ranks);
    // Ranks wait for each other: either all of them begin, or none.
    std::promise<bool> are_all_there;
    const std::shared_future<bool> begin = are_all_there.get_future().share();
    std::vector<std::jthread> threads;
    for (std::unique_ptr<models::Model>& model : models) {
      const auto index = static_cast<int>(threads.size());
      threads.push_back(start_thread<std::jthread>([&, index, own = std::move(model)]() mutable {
        if (!begin.get()) return;
        run_rank(meeting, index, shared.each(),
                 {.config = config_of_rank(work.config),
                  .data = work.data,
                  .schedule = work.schedule,
                  .model = std::move(own),
                  .ranks = work.ranks},
                 task);
      }));
    }
    const bool all = std::ranges::all_of(threads, &std::jthread::joinable);
    are_all_there.set_value(all);
    if (!all)
      throw runtime_error("verify with ranks", "a thread for each of " + counted(ranks, "rank"),
                          "a system that starts no more",
                          "fewer --ranks, or a higher limit on processes (ulimit -u, pids.max of "
                          "the control group)");
  }
  if (meeting.first_error) std::rethrow_exception(meeting.first_error);
}

/// Zeros, to which the parts of ranks are added.
Gradients nothing_of(const models::Model& model) {
  Gradients none;
  for (const NamedParameter& parameter : optim::trained_of(model.parameters()))
    none.sums.push_back(at::zeros(parameter.tensor.sizes(), parameter.tensor.options()));
  none.accumulation_errors.assign(none.sums.size(), 0);
  return none;
}

}  // namespace

std::optional<std::string> why_ranks_are_skipped(const train::Config& config, std::int64_t ranks) {
  if (!distributed::has_process_groups())
    return "this build has no process groups (Gloo), by which ranks and stages exchange sums";
  if (ranks == config.dist.stages) return std::nullopt;
  if (config.dist.takes_outer_steps())
    return "ranks that step alone (dist.local_steps, dist.outer) share no window";
  if (config.dist.compress != distributed::Compression::none)
    return "sums that are compressed (dist.compress = " +
           in_quotes(to_string(config.dist.compress)) + ") are not exact, by design";
  return std::nullopt;
}

std::unique_ptr<memory::ShardScope> scope_of_ranks(const train::Config& config) {
  if (config.dist.shard != train::Shard::all) return nullptr;
  return std::make_unique<memory::ShardScope>();
}

Gradients window_of_ranks(const train::Workload& work,
                          std::vector<std::unique_ptr<models::Model>> models,
                          const train::MicroDecision& micro, const TrainingParts& parts) {
  const std::int64_t ranks = std::ssize(models);
  Gradients result = nothing_of(*models.front());
  std::mutex mutex;
  run_on_ranks(work, std::move(models),
               [&](std::shared_ptr<distributed::Group> group, train::Workload own) {
                 Rank rank(parts.group(std::move(group)), std::move(own), micro, /*steps=*/false);
                 rank.run_window();
                 const std::scoped_lock lock(mutex);
                 rank.add_to(result);
               });
  // The reduction adds as many sums again as there are ranks.
  for (std::size_t i = 0; i < result.sums.size(); ++i)
    result.accumulation_errors[i] += static_cast<double>(ranks) *
                                     unit_roundoff(result.sums[i].scalar_type()) *
                                     l2_norm(result.sums[i]);
  return result;
}

std::vector<std::vector<at::Tensor>> parameters_after_steps_of_ranks(
    const train::Workload& work, std::vector<std::unique_ptr<models::Model>> models,
    const train::MicroDecision& micro, const std::vector<batch::Range>& windows,
    const TrainingParts& parts) {
  std::vector<std::vector<at::Tensor>> result(models.size());
  run_on_ranks(work, std::move(models),
               [&](std::shared_ptr<distributed::Group> group, train::Workload own) {
                 const auto index = static_cast<std::size_t>(group->rank());
                 Rank rank(parts.group(std::move(group)), std::move(own), micro, /*steps=*/true);
                 rank.take_steps(windows, parts);
                 result.at(index) = rank.parameters();
               });
  return result;
}

}  // namespace accrue::proof
