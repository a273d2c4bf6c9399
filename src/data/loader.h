#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "accrue/batch/micro_batch.h"
#include "accrue/data/source.h"
#include "batch/sampler.h"
#include "batch/schedule.h"

namespace accrue::data {

/// Turns draw ordinals into micro-batches, ahead of the training thread if requested. If the system
/// cannot start a thread for that, next() reads each when it is taken.
///
/// `fetch` is a pure function of the ordinals: replay uses it. `prefetch` and `next` are for one
/// consumer thread; `fetch` may be called from any thread at any time.
class Loader {
 public:
  /// Prepares at most `ahead` (>= 1) micro-batches before they are taken. Throws a usage Error
  /// if the sampler is not one of this source's samples.
  Loader(std::shared_ptr<const Source> source, batch::Sampler sampler, std::size_t ahead = 2);
  /// Waits for the micro-batch being read, drops the rest.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Samples sampler.sample(ordinal) for each ordinal, which become the micro-batch's sample_ids
  /// and those of its spans.
  batch::MicroBatch fetch(batch::Range ordinals) const;
  batch::MicroBatch fetch_draws(std::vector<std::int64_t> ordinals) const;
  /// Fetches with a row for each ordinal, even if one is unreadable (data::fetch_full): for the
  /// shapes and not the samples, so images are as in evaluation.
  batch::MicroBatch fetch_full(batch::Range ordinals) const;

  /// The samples of the source that these ordinals draw.
  std::vector<std::int64_t> samples_of(const std::vector<std::int64_t>& ordinals) const;

  /// Requests micro-batches after those requested before. Returns at once.
  void prefetch(std::vector<batch::Range> ranges);
  /// The next micro-batch in the order of `prefetch`; waits for it. An error in making it is thrown
  /// here, instead of it: the following call continues with the next. Throws a usage Error if none
  /// was requested.
  batch::MicroBatch next();
  /// Drops requested micro-batches that were not taken: the caller splits a window again.
  void cancel();

  /// Seconds, since it was made, that callers of next() and of the fetches waited for samples.
  double waited_seconds() const { return waited_seconds_; }
  /// Whether micro-batches are read ahead, on a separate thread.
  bool reads_ahead() const { return worker_.joinable(); }

 private:
  using Outcome = std::variant<batch::MicroBatch, std::exception_ptr>;

  batch::MicroBatch load(std::vector<std::int64_t> ordinals) const;
  void work();
  void load_next(std::unique_lock<std::mutex>& lock);
  Outcome attempt(batch::Range range) const noexcept;

  std::shared_ptr<const Source> source_;
  batch::Sampler sampler_;
  std::size_t ahead_;
  mutable std::atomic<double> waited_seconds_ = 0;

  std::mutex mutex_;  ///< guards all members below
  std::condition_variable work_to_do_, work_done_;
  std::deque<batch::Range> requested_;
  std::deque<Outcome> ready_;
  std::size_t in_progress_ = 0;
  std::uint64_t generation_ = 0;  ///< cancel() starts a new one, and drops the old one's results
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace accrue::data
