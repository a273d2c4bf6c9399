#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/distributed/group.h"
#include "core/cause.h"
#include "distributed/group/addresses.h"
#include "distributed/group/post_mortem.h"
#include "distributed/group/rank_store.h"
#include "distributed/group/run_until.h"

namespace accrue::distributed {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
/// The engine's tag for what one rank sends another: messages keep their order within a tag.
constexpr int kPassed = 1;
/// How long the engine may take beyond its own timeout, and to end after a failure.
constexpr std::chrono::milliseconds kSpare{500};

/// The device for a launch: where the store is on the loopback interface, all ranks are on this
/// machine.
std::shared_ptr<::gloo::transport::Device> device_for(const Launch& launch) {
  using c10d::ProcessGroupGloo;
  if (!launch.interface.empty())
    return ProcessGroupGloo::createDeviceForInterface(launch.interface);
  if (is_loopback(launch.master_addr)) return ProcessGroupGloo::createDeviceForHostname(kLoopback);
  return ProcessGroupGloo::createDefaultDevice();
}

/// Threads made while it lives get EPIPE from a socket that a rank closed, not a signal that ends
/// the process: libuv, on which the store is hosted, writes without MSG_NOSIGNAL.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~WithoutSigpipe() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t before_{};
};

/// Opened once: by the end of a collective, or by who gives it up.
class Latch {
 public:
  void open(bool is_done) {
    const std::scoped_lock lock(mutex_);
    if (!is_done_) is_done_ = is_done;
    opened_.notify_all();
  }
  /// Returns whether the collective's end opened it.
  bool wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return is_done_.has_value(); });
    return *is_done_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  std::optional<bool> is_done_;
};

/// Returns false where the guard gave the collective up. A collective cannot be stopped: the engine
/// goes on with it.
bool wait_for_collective(c10d::Work& work, Heartbeat& heart, Deadline until) {
  const auto latch = std::make_shared<Latch>();
  const Heartbeat::Guard guard(heart, until, [latch] { latch->open(false); });
  work.getFuture()->addCallback([latch](c10::ivalue::Future&) { latch->open(true); });
  return latch->wait() && work.wait();
}

/// Waits for what one rank passes to another, which has no future. Returns false where the guard
/// gave it up.
bool wait_for_passing(c10d::Work& work, Heartbeat& heart, Deadline until) {
  const Heartbeat::Guard guard(heart, until, [&work] { work.abort(); });
  return work.wait();
}

class GlooGroup final : public Group {
 public:
  GlooGroup(const Launch& launch, const GroupOptions& options)
      : rank_(launch.rank),
        world_(launch.world),
        timeout_(options.timeout),
        ranks_(launch, options.timeout) {
    const Stopwatch watch;
    try {
      auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
      gloo->devices.push_back(device_for(launch));
      engine_ = run_until(from_now(options.timeout + kSpare), [gloo, launch,
                                                               store = ranks_.take_connection()] {
        return c10::make_intrusive<c10d::ProcessGroupGloo>(store, launch.rank, launch.world, gloo);
      });
    } catch (const std::exception& error) {
      throw failed(0, "connect to the other ranks", cause_of(error), watch);
    }
  }

  /// The engine waits for whatever is under way, which may never end.
  ~GlooGroup() override {
    try {
      run_until(from_now(ended_ ? kSpare : timeout_),
                [engine = std::move(engine_)]() mutable { engine.reset(); });
    } catch (const std::exception&) {
      // The engine ends when its own timeouts do, or with the process.
    }
  }
  GlooGroup(const GlooGroup&) = delete;
  GlooGroup& operator=(const GlooGroup&) = delete;

  std::int64_t rank() const override { return rank_; }
  std::int64_t world() const override { return world_; }
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

  void fail(const std::string& reason) noexcept override {
    if (std::exchange(ended_, true)) return;
    // This comes before the engine ends, because the others notice its end at once.
    ranks_.end_for("rank " + std::to_string(rank_) + " failed: " + reason);
  }

 private:
  class GlooWork final : public Work {
   public:
    GlooWork(GlooGroup& group, c10::intrusive_ptr<c10d::Work> work, std::int64_t number,
             std::string what, bool is_collective)
        : group_(group),
          work_(std::move(work)),
          number_(number),
          what_(std::move(what)),
          is_collective_(is_collective) {}

    void wait() override {
      const Stopwatch watch;
      bool is_done = false;
      std::string error = "not all of them";
      try {
        const auto wait = is_collective_ ? wait_for_collective : wait_for_passing;
        // What the group's end has left under way is not waited for.
        const Deadline until =
            from_now(group_.ended_ ? std::chrono::milliseconds(0) : group_.timeout_);
        is_done = wait(*work_, group_.ranks_.heart(), until);
      } catch (const std::exception& failure) {
        error = cause_of(failure);
      }
      if (!is_done) throw group_.failed(number_, what_, error, watch);
    }

    bool is_done() const override { return work_->isCompleted(); }

   private:
    GlooGroup& group_;
    c10::intrusive_ptr<c10d::Work> work_;
    std::int64_t number_;
    std::string what_;
    bool is_collective_;
  };

  /// `begin()` hands the collective to the engine.
  template <class Begin>
  std::unique_ptr<Work> start(std::string_view what, const Begin& begin) {
    ++collectives_;
    return begin_work(what, true, [&] {
      ranks_.enter(collectives_, what);
      return begin();
    });
  }

  /// What only some ranks take part in does not count among the collectives.
  template <class Begin>
  std::unique_ptr<Work> start_uncounted(std::string_view what, const Begin& begin) {
    return begin_work(what, false, begin);
  }

  template <class Begin>
  std::unique_ptr<Work> begin_work(std::string_view what, bool is_collective, const Begin& begin) {
    const Stopwatch watch;
    try {
      return std::make_unique<GlooWork>(*this, begin(), collectives_, std::string(what),
                                        is_collective);
    } catch (const std::exception& error) {
      throw failed(collectives_, std::string(what), cause_of(error), watch);
    }
  }

  /// `watch` runs since the wait began.
  Error failed(std::int64_t number, const std::string& what, const std::string& error,
               const Stopwatch& watch) {
    ended_ = true;
    const double timeout = std::chrono::duration<double>(timeout_).count();
    const bool ran_out = watch.seconds() >= timeout;
    const std::string reason = ranks_.end_in(number, error);
    const bool was_late = ran_out && !tells_of_death(reason);
    return runtime_error(what, "all " + std::to_string(world_) + " ranks",
                         reason + ", after " + format_seconds(watch.seconds()) +
                             (was_late ? " (dist.timeout is " + format_seconds(timeout) + ")" : ""),
                         std::string("looking at the messages of the rank named") +
                             (was_late ? ", or a longer dist.timeout" : ""));
  }

  at::Tensor rows_like(const at::Tensor& own) const;

  std::int64_t rank_, world_;
  std::chrono::milliseconds timeout_;
  RankStore ranks_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> engine_;
  std::int64_t collectives_ = 0;
  std::int64_t wire_bytes_ = 0;
  bool ended_ = false;
};

std::unique_ptr<Work> GlooGroup::start_sum(at::Tensor values, std::string_view what) {
  wire_bytes_ += 2 * (world_ - 1) * static_cast<std::int64_t>(values.nbytes()) / world_;
  return start(what, [&] {
    std::vector<at::Tensor> tensors{std::move(values)};
    return engine_->allreduce(tensors);
  });
}

void GlooGroup::broadcast(at::Tensor values, std::int64_t root, std::string_view what) {
  if (rank_ == root) wire_bytes_ += (world_ - 1) * static_cast<std::int64_t>(values.nbytes());
  start(what, [&] {
    std::vector<at::Tensor> tensors{std::move(values)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return engine_->broadcast(tensors, options);
  })->wait();
}

std::unique_ptr<Work> GlooGroup::start_all_to_all(at::Tensor rows, at::Tensor received,
                                                  std::string_view what) {
  wire_bytes_ += (world_ - 1) * static_cast<std::int64_t>(rows.nbytes()) / world_;
  std::vector<std::int64_t> equal;
  return start(what, [&] { return engine_->alltoall_base(received, rows, equal, equal); });
}

std::unique_ptr<Work> GlooGroup::start_send(at::Tensor values, std::int64_t to,
                                            std::string_view what) {
  wire_bytes_ += static_cast<std::int64_t>(values.nbytes());
  return start_uncounted(std::string(what) + ", to rank " + std::to_string(to), [&] {
    std::vector<at::Tensor> tensors{std::move(values)};
    return engine_->send(tensors, static_cast<int>(to), kPassed);
  });
}

std::unique_ptr<Work> GlooGroup::start_receive(at::Tensor values, std::int64_t from,
                                               std::string_view what) {
  return start_uncounted(std::string(what) + ", from rank " + std::to_string(from), [&] {
    std::vector<at::Tensor> tensors{std::move(values)};
    return engine_->recv(tensors, static_cast<int>(from), kPassed);
  });
}

at::Tensor GlooGroup::all_to_all(const at::Tensor& rows) {
  at::Tensor received = at::empty_like(rows);
  start_all_to_all(rows, received, "all-to-all")->wait();
  return received;
}

at::Tensor GlooGroup::rows_like(const at::Tensor& own) const {
  std::vector<std::int64_t> shape = own.sizes().vec();
  shape.insert(shape.begin(), world_);
  return at::empty(shape, own.options());
}

at::Tensor GlooGroup::gather(const at::Tensor& own, std::int64_t root, std::string_view what) {
  if (rank_ != root) wire_bytes_ += static_cast<std::int64_t>(own.nbytes());
  const at::Tensor rows = rank_ == root ? rows_like(own) : at::Tensor();
  std::vector<std::vector<at::Tensor>> outputs;
  if (rank_ == root) outputs.push_back(rows.unbind());
  std::vector<at::Tensor> inputs{own};
  c10d::GatherOptions options;
  options.rootRank = root;
  start(what, [&] { return engine_->gather(outputs, inputs, options); })->wait();
  return rows;
}

at::Tensor GlooGroup::all_gather(const at::Tensor& own) {
  wire_bytes_ += (world_ - 1) * static_cast<std::int64_t>(own.nbytes());
  const at::Tensor rows = rows_like(own);
  std::vector<std::vector<at::Tensor>> outputs{rows.unbind()};
  std::vector<at::Tensor> inputs{own};
  start("all-gather", [&] { return engine_->allgather(outputs, inputs); })->wait();
  return rows;
}

}  // namespace

bool has_process_groups() { return true; }

std::shared_ptr<Group> connect(const Launch& launch, const GroupOptions& options) {
  const WithoutSigpipe for_all_its_threads;
  return std::make_shared<GlooGroup>(launch, options);
}

}  // namespace accrue::distributed
