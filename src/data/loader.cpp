#include "data/loader.h"

#include <ATen/record_function.h>

#include <numeric>
#include <string>
#include <utility>

#include "accrue/core/error.h"
#include "core/helper_thread.h"
#include "core/timed_scope.h"
#include "data/fetch.h"
#include "support/single_core_scope.h"

namespace accrue::data {
namespace {

std::vector<std::int64_t> numbers_of(batch::Range range) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(range.size()));
  std::iota(numbers.begin(), numbers.end(), range.begin);
  return numbers;
}

}  // namespace

Loader::Loader(std::shared_ptr<const Source> source, batch::Sampler sampler, std::size_t ahead)
    : source_(std::move(source)), sampler_(sampler), ahead_(ahead) {
  if (sampler_.size() != source_->size()) {
    throw usage_error("load data", "a sampler of " + std::to_string(source_->size()) + " samples",
                      "one of " + std::to_string(sampler_.size()), "Sampler(source->size(), ...)");
  }
  if (ahead_ < 1) {
    throw usage_error("load data", "at least one micro-batch ahead", "0", "1, or fetch()");
  }
  worker_ = start_thread([this] { work(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_to_do_.notify_one();
  if (worker_.joinable()) worker_.join();
}

batch::MicroBatch Loader::fetch(batch::Range ordinals) const {
  return fetch_draws(numbers_of(ordinals));
}

batch::MicroBatch Loader::fetch_draws(std::vector<std::int64_t> ordinals) const {
  const TimedScope waiting(waited_seconds_);
  return load(std::move(ordinals));
}

batch::MicroBatch Loader::load(std::vector<std::int64_t> ordinals) const {
  const std::vector<std::int64_t> samples = samples_of(ordinals);
  return fetch_drawn_as(*source_, samples, std::move(ordinals));
}

batch::MicroBatch Loader::fetch_full(batch::Range ordinals) const {
  const TimedScope waiting(waited_seconds_);
  std::vector<std::int64_t> ids = numbers_of(ordinals);
  const std::vector<std::int64_t> samples = samples_of(ids);
  return data::fetch_full(*source_, samples, std::move(ids));
}

std::vector<std::int64_t> Loader::samples_of(const std::vector<std::int64_t>& ordinals) const {
  std::vector<std::int64_t> samples;
  samples.reserve(ordinals.size());
  for (const std::int64_t ordinal : ordinals) samples.push_back(sampler_.sample(ordinal));
  return samples;
}

void Loader::prefetch(std::vector<batch::Range> ranges) {
  {
    const std::lock_guard lock(mutex_);
    requested_.insert(requested_.end(), ranges.begin(), ranges.end());
  }
  work_to_do_.notify_one();
}

batch::MicroBatch Loader::next() {
  std::unique_lock lock(mutex_);
  if (requested_.empty() && ready_.empty() && in_progress_ == 0) {
    throw usage_error("load data", "a prefetch() before next()", "nothing left to take",
                      "prefetch() of the window's ranges");
  }
  {
    RECORD_USER_SCOPE("data: wait");
    const TimedScope waiting(waited_seconds_);
    if (!reads_ahead()) load_next(lock);
    work_done_.wait(lock, [this] { return !ready_.empty(); });
  }
  Outcome outcome = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  work_to_do_.notify_one();
  if (const auto* error = std::get_if<std::exception_ptr>(&outcome)) std::rethrow_exception(*error);
  return std::get<batch::MicroBatch>(std::move(outcome));
}

void Loader::cancel() {
  const std::lock_guard lock(mutex_);
  requested_.clear();
  ready_.clear();
  in_progress_ = 0;
  ++generation_;
}

void Loader::work() {
  const SingleCoreScope beside_the_training;
  std::unique_lock lock(mutex_);
  while (true) {
    work_to_do_.wait(
        lock, [this] { return stopping_ || (!requested_.empty() && ready_.size() < ahead_); });
    if (stopping_) return;
    load_next(lock);
  }
}

/// Reads the first requested range, without holding the lock.
void Loader::load_next(std::unique_lock<std::mutex>& lock) {
  const batch::Range range = requested_.front();
  requested_.pop_front();
  const std::uint64_t generation = generation_;
  in_progress_ = 1;
  lock.unlock();
  Outcome outcome = attempt(range);
  lock.lock();
  if (generation != generation_) return;  // cancelled meanwhile
  in_progress_ = 0;
  ready_.push_back(std::move(outcome));
  work_done_.notify_one();
}

Loader::Outcome Loader::attempt(batch::Range range) const noexcept {
  RECORD_USER_SCOPE("data: load");
  try {
    return load(numbers_of(range));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace accrue::data
