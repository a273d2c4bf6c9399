#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "accrue/core/clock.h"
#include "accrue/memory/offload.h"
#include "memory/state_file.h"

namespace accrue::memory {

/// Moves parts of a StateFile in and out of memory on a thread of its own, or in the calling thread
/// if the system starts no other.
class StateMover {
 public:
  /// The parts that are needed; all else leaves memory.
  struct Request {
    std::vector<FileRange> now, next;  ///< merged()
  };

  explicit StateMover(std::shared_ptr<const StateFile> file);
  ~StateMover();
  StateMover(const StateMover&) = delete;
  StateMover& operator=(const StateMover&) = delete;

  /// Replaces the last request, as far as it is not fulfilled. Throws a runtime Error if the disk
  /// has refused a read or a write.
  void request(Request request);
  /// Waits until the last request is fulfilled. Throws a runtime Error if the disk has
  /// refused a read or a write.
  void wait();
  /// The bytes that were changed and written so far; 0 if the kernel does not count them.
  std::int64_t written_bytes() const { return written_bytes_; }
  /// The time in which `now` of a request was not in memory yet, or wait() had not returned.
  double wait_seconds() const;
  /// Transfers of at least kLeastJudgedBytes that the kernel counted: what the thread read itself,
  /// and what was changed of the parts that a request took out of memory.
  static constexpr std::int64_t kLeastJudgedBytes = std::int64_t{4} << 20;
  Transfers reading() const;
  Transfers writing() const;

 private:
  void work();
  void fulfil(const Request& request);
  /// These return whether the request is still to be fulfilled.
  bool read(const FileRange& piece);
  bool take_out(const std::vector<FileRange>& ranges);
  bool note(bool succeeded, const char* what);
  void count(Transfers& transfers, std::int64_t bytes, const Stopwatch& watch);
  void throw_if_failed() const;
  // With mutex_ held:
  void begin_wait();
  void end_wait();

  std::shared_ptr<const StateFile> file_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Request> waiting_;  ///< null: there is none
  bool is_busy_ = false, ends_ = false;
  std::string failure_;
  std::atomic<std::int64_t> written_bytes_{0};
  double wait_seconds_ = 0;
  Transfers reading_, writing_;
  std::optional<Stopwatch> wait_;  ///< since what is waited for was requested
  bool is_waited_for_ = false;     ///< wait() has been called
  std::thread thread_;
};

}  // namespace accrue::memory
