#include <algorithm>
#include <csignal>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/distributed/group.h"
#include "core/cause.h"
#include "distributed/group/connect_with.h"
#include "distributed/group/liveness/collective_waits.h"
#include "distributed/group/membership/post_mortem.h"
#include "distributed/group/network/addresses.h"
#include "distributed/group/network/run_until.h"
#include "distributed/group/rendezvous/rank_store.h"

namespace accrue::distributed {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
/// The engine's tag for messages between two ranks: messages keep their order within a tag.
constexpr int kPassed = 1;
/// How long the engine may take beyond its own timeout, and to end after a failure.
constexpr std::chrono::milliseconds kSpare{500};
/// How often a group is rebuilt, at most, until it works.
constexpr int kRenewals = 16;

/// Threads created while it exists get EPIPE from a socket that a rank closed, not a signal that
/// ends the process: libuv, on which the store is hosted, writes without MSG_NOSIGNAL.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~SigpipeGuard() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t before_{};
};

/// The device for a launch: if the store is on the loopback interface, all ranks are on this
/// machine.
std::shared_ptr<::gloo::transport::Device> device_for(const Launch& launch) {
  using c10d::ProcessGroupGloo;
  if (!launch.interface.empty())
    return ProcessGroupGloo::createDeviceForInterface(launch.interface);
  if (is_loopback(launch.master_addr)) return ProcessGroupGloo::createDeviceForHostname(kLoopback);
  return ProcessGroupGloo::createDefaultDevice();
}

/// Tensors in host memory go through Gloo, those on a device through a separate engine.
class GlooGroup final : public Group {
 public:
  GlooGroup(const Launch& launch, const GroupOptions& options, MakeDeviceEngine make_device_engine)
      : launch_(launch),
        timeout_(options.timeout),
        least_(options.least),
        ranks_(launch, options.timeout, options.least > 0, options.tell_waiting),
        make_device_engine_(std::move(make_device_engine)) {
    if (!ranks_.came_late()) connect_engine();
  }

  ~GlooGroup() override {
    const bool others_go_on = ended_ && may_be_renewed();
    if (others_go_on) ranks_.linger_before_exit();
    leave_engines();
    if (!others_go_on) ranks_.end_stopped_ranks(ended_);
  }
  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;

  std::int64_t rank() const override { return ranks_.rank(); }
  std::int64_t world() const override { return ranks_.world(); }
  std::int64_t wire_bytes() const override { return wire_bytes_; }

  std::unique_ptr<Work> start_sum(at::Tensor values, std::string_view what) override;
  std::unique_ptr<Work> start_all_to_all(at::Tensor rows, at::Tensor received,
                                         std::string_view what) override;
  std::unique_ptr<Work> start_send(at::Tensor values, std::int64_t to,
                                   std::string_view what) override;
  std::unique_ptr<Work> start_receive(at::Tensor values, std::int64_t from,
                                      std::string_view what) override;
  at::Tensor gather(const at::Tensor& own, std::int64_t root, std::string_view what) override;
  void broadcast(at::Tensor values, std::int64_t root, std::string_view what) override;
  at::Tensor all_to_all(const at::Tensor& rows) override;
  at::Tensor all_gather(const at::Tensor& own) override;

  void barrier(std::string_view what) override {
    start_sum(at::zeros({1}, at::kLong), what)->wait();
  }

  std::vector<std::string> gather_texts(std::string_view topic, const std::string& mine) override {
    return ranks_.gather(topic, mine);
  }

  void announce(std::int64_t number) override { ranks_.heartbeat().announce(number); }
  std::int64_t announced() override { return ranks_.heartbeat().announced(); }

  void fail(const std::string& reason) noexcept override {
    if (std::exchange(ended_, true)) return;
    // Before the engine ends, because the other ranks notice its end at once.
    ranks_.end_for("rank " + std::to_string(rank()) + " failed: " + reason);
    ranks_.linger_before_exit();
  }

  bool may_be_renewed() const override { return least_ > 0 && (is_settled_ || comes_late()); }
  void settle() override {
    is_settled_ = true;
    ranks_.settle();
  }
  bool comes_late() const override { return ranks_.came_late(); }
  bool has_lost_one() override { return lost_one().has_value(); }
  bool has_applicants() override { return ranks_.has_applicants(); }
  FormerRanks renew(const KeepWaiting& keep_waiting) override;
  std::int64_t generation() const override { return ranks_.generation(); }

 private:
  class GlooWork final : public Work {
   public:
    using Wait = bool (*)(c10d::Work&, Heartbeat&, Deadline);

    GlooWork(GlooGroup& group, c10::intrusive_ptr<c10d::Work> work, std::int64_t number,
             std::string what, Wait how)
        : group_(group),
          work_(std::move(work)),
          number_(number),
          what_(std::move(what)),
          wait_(how) {}

    void wait() override {
      const Stopwatch watch;
      bool is_done = false;
      std::string error = "not all of them";
      try {
        // Work that the group's end has left unfinished is not waited for.
        const Deadline until =
            from_now(group_.ended_ ? std::chrono::milliseconds(0) : group_.timeout_);
        is_done = wait_(*work_, group_.ranks_.heartbeat(), until);
      } catch (const std::exception& failure) {
        error = cause_of(failure);
      }
      if (!is_done) group_.lose(number_, what_, error, watch);
    }

    bool is_done() const override { return work_->isCompleted(); }

   private:
    GlooGroup& group_;
    c10::intrusive_ptr<c10d::Work> work_;
    std::int64_t number_;
    std::string what_;
    Wait wait_;
  };

  std::optional<std::string> lost_one() const {
    return may_be_renewed() ? ranks_.lost_one() : std::nullopt;
  }

  bool needs_device_engine(const at::Tensor& values) const {
    return make_device_engine_ && !values.is_cpu();
  }

  /// The engine for tensors on the device of `values`. A device's engine is made when all ranks
  /// begin their first collective with it.
  c10d::Backend& engine_for(const at::Tensor& values) {
    if (!needs_device_engine(values)) return *engine_;
    if (!device_engine_)
      device_engine_ = make_device_engine_({.store = ranks_.device_connection(),
                                            .rank = ranks_.rank(),
                                            .world = ranks_.world(),
                                            .timeout = timeout_});
    return *device_engine_;
  }

  /// `begin(engine)` submits a collective of tensors on the device of `values` to the engine.
  template <class Begin>
  std::unique_ptr<Work> start(std::string_view what, const at::Tensor& values, const Begin& begin) {
    ++collectives_;
    const auto wait = needs_device_engine(values) ? wait_on_device : wait_for_collective;
    return begin_work(what, wait, [&] {
      ranks_.enter(collectives_, what);
      return begin(engine_for(values));
    });
  }

  /// An exchange between only some ranks does not count among the collectives.
  template <class Begin>
  std::unique_ptr<Work> start_uncounted(std::string_view what, const at::Tensor& values,
                                        const Begin& begin) {
    const auto wait = needs_device_engine(values) ? wait_on_device : wait_for_passing;
    return begin_work(what, wait, [&] { return begin(engine_for(values)); });
  }

  template <class Begin>
  std::unique_ptr<Work> begin_work(std::string_view what, GlooWork::Wait wait, const Begin& begin) {
    const Stopwatch watch;
    if (const auto lost = lost_one())
      lose(collectives_, std::string(what), "rank " + *lost + " ended", watch);
    try {
      return std::make_unique<GlooWork>(*this, begin(), collectives_, std::string(what), wait);
    } catch (const std::exception& error) {
      lose(collectives_, std::string(what), cause_of(error), watch);
    }
  }

  /// `watch` has run since the wait began.
  [[noreturn]] void lose(std::int64_t number, const std::string& what, const std::string& error,
                         const Stopwatch& watch) {
    ended_ = true;
    const double timeout = std::chrono::duration<double>(timeout_).count();
    const bool ran_out = watch.seconds() >= timeout;
    const std::string reason = end_in(number, error);
    const bool was_late = ran_out && !names_lost_rank(reason);
    const Error failed =
        runtime_error(what, "all " + std::to_string(world()) + " ranks",
                      reason + ", after " + format_seconds(watch.seconds()) +
                          (was_late ? " (dist.timeout is " + format_seconds(timeout) + ")" : ""),
                      std::string("looking at the messages of the rank named") +
                          (was_late ? ", or a longer dist.timeout" : ""));
    if (ranks_.has_lost_host()) throw failed;
    throw RanksGone(failed);
  }

  /// Why the group ended. If it may be rebuilt, that shows who is missing; otherwise this finds
  /// out, and this process has to end.
  std::string end_in(std::int64_t number, const std::string& error) {
    if (may_be_renewed()) return ranks_.end_for(error);
    std::string reason = ranks_.end_in(number, error);
    ranks_.linger_before_exit();
    return reason;
  }

  void connect_engine();
  void leave_engines() noexcept;

  at::Tensor rows_like(const at::Tensor& own) const;

  Launch launch_;
  std::chrono::milliseconds timeout_;
  std::int64_t least_;
  RankStore ranks_;
  c10::intrusive_ptr<c10d::Backend> engine_;
  MakeDeviceEngine make_device_engine_;  ///< null: the host memory's engine moves all tensors
  c10::intrusive_ptr<c10d::Backend> device_engine_;
  std::int64_t collectives_ = 0;
  std::int64_t wire_bytes_ = 0;
  bool ended_ = false;
  bool is_settled_ = false;
};

void GlooGroup::connect_engine() {
  const Stopwatch watch;
  try {
    auto gloo = c10d::ProcessGroupGloo::Options::create(timeout_);
    gloo->devices.push_back(device_for(launch_));
    engine_ = run_until(
        from_now(timeout_ + kSpare),
        [gloo, store = ranks_.engine_connection(), rank = ranks_.rank(), world = ranks_.world()] {
          return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world, gloo);
        });
  } catch (const std::exception& error) {
    lose(0, kConnect, cause_of(error), watch);
  }
}

/// Engines wait for pending work, which may never end.
void GlooGroup::leave_engines() noexcept {
  try {
    run_until(from_now(ended_ ? kSpare : timeout_),
              [engine = std::move(engine_), device_engine = std::move(device_engine_),
               was_lost = ended_]() mutable {
                if (device_engine && was_lost) device_engine->abort();
                device_engine.reset();
                engine.reset();
              });
  } catch (const std::exception&) {
    // They end with their own timeouts, or with the process.
  }
}

FormerRanks GlooGroup::renew(const KeepWaiting& keep_waiting) {
  const SigpipeGuard for_all_its_threads;
  const std::vector<Member> before = engine_ || ended_ ? ranks_.members() : std::vector<Member>();
  leave_engines();
  for (int left = kRenewals; true; --left) {
    try {
      ranks_.form_next_group(least_, keep_waiting);
      ended_ = false;
      collectives_ = 0;
      connect_engine();
      break;
    } catch (const RanksGone& gone) {
      // A rank that was lost meanwhile is left out of the next group.
      if (left == 0) throw static_cast<const Error&>(gone);
    }
  }
  FormerRanks former;
  for (const Member member : ranks_.members()) {
    const auto at = std::ranges::find(before, member);
    former.push_back(at == before.end() ? std::nullopt
                                        : std::optional<std::int64_t>(at - before.begin()));
  }
  return former;
}

std::unique_ptr<Work> GlooGroup::start_sum(at::Tensor values, std::string_view what) {
  wire_bytes_ += 2 * (world() - 1) * static_cast<std::int64_t>(values.nbytes()) / world();
  return start(what, values, [&](c10d::Backend& engine) {
    std::vector<at::Tensor> tensors{values};
    return engine.allreduce(tensors);
  });
}

void GlooGroup::broadcast(at::Tensor values, std::int64_t root, std::string_view what) {
  if (rank() == root) wire_bytes_ += (world() - 1) * static_cast<std::int64_t>(values.nbytes());
  start(what, values, [&](c10d::Backend& engine) {
    std::vector<at::Tensor> tensors{values};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return engine.broadcast(tensors, options);
  })->wait();
}

std::unique_ptr<Work> GlooGroup::start_all_to_all(at::Tensor rows, at::Tensor received,
                                                  std::string_view what) {
  wire_bytes_ += (world() - 1) * static_cast<std::int64_t>(rows.nbytes()) / world();
  std::vector<std::int64_t> equal;
  return start(what, rows, [&](c10d::Backend& engine) {
    return engine.alltoall_base(received, rows, equal, equal);
  });
}

std::unique_ptr<Work> GlooGroup::start_send(at::Tensor values, std::int64_t to,
                                            std::string_view what) {
  wire_bytes_ += static_cast<std::int64_t>(values.nbytes());
  return start_uncounted(std::string(what) + ", to rank " + std::to_string(to), values,
                         [&](c10d::Backend& engine) {
                           std::vector<at::Tensor> tensors{values};
                           return engine.send(tensors, static_cast<int>(to), kPassed);
                         });
}

std::unique_ptr<Work> GlooGroup::start_receive(at::Tensor values, std::int64_t from,
                                               std::string_view what) {
  return start_uncounted(std::string(what) + ", from rank " + std::to_string(from), values,
                         [&](c10d::Backend& engine) {
                           std::vector<at::Tensor> tensors{values};
                           return engine.recv(tensors, static_cast<int>(from), kPassed);
                         });
}

at::Tensor GlooGroup::all_to_all(const at::Tensor& rows) {
  at::Tensor received = at::empty_like(rows);
  start_all_to_all(rows, received, "all-to-all")->wait();
  return received;
}

at::Tensor GlooGroup::rows_like(const at::Tensor& own) const {
  std::vector<std::int64_t> shape = own.sizes().vec();
  shape.insert(shape.begin(), world());
  return at::empty(shape, own.options());
}

at::Tensor GlooGroup::gather(const at::Tensor& own, std::int64_t root, std::string_view what) {
  if (rank() != root) wire_bytes_ += static_cast<std::int64_t>(own.nbytes());
  at::Tensor rows = rank() == root ? rows_like(own) : at::Tensor();
  std::vector<std::vector<at::Tensor>> outputs;
  if (rank() == root) outputs.push_back(rows.unbind());
  std::vector<at::Tensor> inputs{own};
  c10d::GatherOptions options;
  options.rootRank = root;
  start(what, own, [&](c10d::Backend& engine) {
    return engine.gather(outputs, inputs, options);
  })->wait();
  return rows;
}

at::Tensor GlooGroup::all_gather(const at::Tensor& own) {
  wire_bytes_ += (world() - 1) * static_cast<std::int64_t>(own.nbytes());
  at::Tensor rows = rows_like(own);
  std::vector<std::vector<at::Tensor>> outputs{rows.unbind()};
  std::vector<at::Tensor> inputs{own};
  start("all-gather", own, [&](c10d::Backend& engine) {
    return engine.allgather(outputs, inputs);
  })->wait();
  return rows;
}

}  // namespace

bool has_process_groups() { return true; }

std::shared_ptr<Group> connect_with(MakeDeviceEngine make_device_engine, const Launch& launch,
                                    const GroupOptions& options) {
  const SigpipeGuard for_all_its_threads;
  return std::make_shared<GlooGroup>(launch, options, std::move(make_device_engine));
}

std::shared_ptr<Group> connect(const Launch& launch, const GroupOptions& options) {
  const bool by_nccl = options.device_engine == DeviceEngine::nccl;
  return connect_with(by_nccl ? make_nccl_engine : MakeDeviceEngine(), launch, options);
}

}  // namespace accrue::distributed
