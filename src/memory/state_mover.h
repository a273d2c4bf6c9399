#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

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

 private:
  void work();
  void fulfil(const Request& request);
  void throw_if_failed() const;

  std::shared_ptr<const StateFile> file_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Request> waiting_;  ///< null: there is none
  bool is_busy_ = false, ends_ = false;
  std::string failure_;
  std::thread thread_;
};

}  // namespace accrue::memory
