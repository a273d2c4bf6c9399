#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "core/even_parts.h"
#include "memory/recovery.h"

namespace accrue::memory {

/// Runs `samples` samples in order, in even parts of at most the current size of `recovery`.
/// `run(begin, end)` returns false if a part ran out of memory and was undone: it then runs again,
/// in the new size.
template <class Run>
void run_in_parts(std::int64_t samples, const Recovery& recovery, const Run& run) {
  for (std::int64_t begin = 0; begin < samples;) {
    const std::int64_t end = begin + even_part(samples - begin, recovery.state().micro_batch);
    if (run(begin, end)) begin = end;
  }
}

/// Handles running out of memory in a window, by the decisions of Recovery. However often it
/// happens in a window, it is reported in one line.
class Retries {
 public:
  using Advice = std::function<std::string()>;
  /// A memory.budget that is enough for micro-batches of this many samples, if one is known.
  using Enough = std::function<std::optional<std::int64_t>(std::int64_t samples)>;

  Retries() = default;  ///< nothing is retried
  /// Without a `recovery` nothing is retried. `advice` suggests what would fit when it gives up.
  explicit Retries(Recovery* recovery, Advice advice = {}, Enough enough = {})
      : recovery_(recovery), advice_(std::move(advice)), enough_(std::move(enough)) {}

  bool enabled() const { return recovery_ != nullptr; }
  /// Call at the start of each window.
  void start();
  /// Call when the micro-batch that failed before has succeeded.
  void passed() { failures_ = 0; }
  /// `what` (as in "micro-batch 3 (samples 12 to 15)"), a micro-batch of `samples`, ran out of
  /// memory. Returns whether and with which size to run it again. Throws a refused Error if nothing
  /// is left to try.
  Recovery::Decision failed(const std::string& what, std::int64_t samples,
                            const std::exception& error);
  /// Decides for a whole window, which must start again. Micro-batches that succeed in between
  /// change nothing: the failing operation may come after them.
  Recovery::Decision window_failed(std::int64_t window, std::int64_t samples,
                                   const std::exception& error);
  /// The effect of memory on a completed window, in words. Nothing if it did not run out since the
  /// last story was taken.
  std::optional<std::string> take_retry_report();
  /// How often memory ran out in this window.
  std::int64_t count() const { return count_; }

 private:
  /// Describes the first time that memory ran out, and the memory that the largest micro-batch
  /// would have taken.
  struct RetryReport {
    std::string what, cause;
    std::int64_t from = 0, to = 0;  ///< samples; equal if nothing was split
    std::int64_t budget = 0;        ///< bytes of a budget that is enough; 0: unknown
  };

  Recovery::Decision decide(std::int64_t& failures, const std::string& what, std::int64_t samples,
                            const std::exception& error);
  void note(const std::string& what, const std::exception& error);
  std::string in_words() const;
  std::string budget_in_words() const;

  Recovery* recovery_ = nullptr;
  Advice advice_ = {};
  Enough enough_ = {};
  std::int64_t count_ = 0, failures_ = 0, restarts_ = 0;
  std::int64_t told_ = 0;  ///< the part of the count that was reported
  RetryReport report_;
};

}  // namespace accrue::memory
