#include "train/checkpoint/replica.h"

#include <exception>
#include <utility>

#include "accrue/core/error.h"
#include "core/helper_thread.h"
#include "observe/history/run_state.h"

namespace accrue::train {
namespace {

/// Why `action` failed; none if it did not.
template <class Action>
std::optional<std::string> failure_of(const Action& action) {
  try {
    action();
    return std::nullopt;
  } catch (const Error& error) {
    return error.operation() + ": " + error.received();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string checkpoint_in_words(std::int64_t step) {
  return "the checkpoint of step " + std::to_string(step);
}

}  // namespace

Replica::Replica(const RunCopies& run, RunTenure tenure) : folder_(run, std::move(tenure)) {
  const auto failure = failure_of([&] { folder_.claim(); });
  if (failure && observe::is_claimed(path()))
    throw usage_error("run.replica " + path().string(), "a folder that no other run is copied to",
                      *failure, "another run.replica");
  note("the run", failure);
  thread_ = start_thread([this] { work(); });
  if (!thread_.joinable())
    remarks_.push_back(in_place_in_words("checkpoints are copied to " + path().string()));
}

Replica::~Replica() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Replica::copy(const PruneOptions& prune) {
  {
    std::unique_lock lock(mutex_);
    waiting_ = prune;
    if (!thread_.joinable()) copy_waiting(lock);
  }
  changed_.notify_all();
}

bool Replica::finish_within(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [&] { return !waiting_ && !is_copying_; });
}

void Replica::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !waiting_ && !is_copying_; });
}

void Replica::copy_end(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  if (fails_) return;
  note("the end of the run", failure_of([&] { folder_.copy_record(step); }));
}

std::string Replica::give_up_after(std::int64_t step) {
  std::string text;
  const auto failure = failure_of([&] { text = folder_.give_up_after(step); });
  return failure ? "the replica keeps its later checkpoints until the next is copied: " + *failure
                 : text;
}

std::vector<std::string> Replica::take_remarks() {
  const std::lock_guard lock(mutex_);
  return std::exchange(remarks_, {});
}

void Replica::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return waiting_ || ends_; });
    if (!waiting_) return;
    copy_waiting(lock);
    changed_.notify_all();
  }
}

/// Makes the waiting copy, without holding the lock.
void Replica::copy_waiting(std::unique_lock<std::mutex>& lock) {
  const PruneOptions next = *std::exchange(waiting_, std::nullopt);
  is_copying_ = true;
  lock.unlock();
  bool was_there = true;
  auto failure = failure_of([&] { was_there = folder_.copy(next); });
  lock.lock();
  is_copying_ = false;
  if (!was_there && !waiting_) failure = "it was removed before it could be copied";
  // A checkpoint that was replaced while it was copied is copied again.
  const bool is_replaced = waiting_ && waiting_->newest == next.newest;
  if (!is_replaced && (was_there || !waiting_)) note(checkpoint_in_words(next.newest), failure);
}

void Replica::note(const std::string& what, const std::optional<std::string>& failure) {
  if (failure && !fails_)
    remarks_.push_back(what + " cannot be copied to " + path().string() + ": " + *failure +
                       "; the training goes on, and it is tried again with the next checkpoint");
  if (!failure && fails_)
    remarks_.push_back(what + " was copied to " + path().string() + ", which works again");
  fails_ = failure.has_value();
}

}  // namespace accrue::train
