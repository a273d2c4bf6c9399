#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "core/descriptor.h"
#include "train/limits/limit_state.h"

namespace accrue::train {

/// Runs a limit's command repeatedly, in a process that nothing here waits for: /bin/sh -c, without
/// input, in a process group that no key of the terminal reaches. Its standard error is discarded.
/// It is killed, with its children, if it takes longer than kSeconds or writes more than kBytes,
/// and when this object is destroyed.
class LimitCommand {
 public:
  static constexpr double kSeconds = 10;
  static constexpr std::size_t kBytes = 65536;

  /// The limit is kept by reference.
  explicit LimitCommand(const Limit& limit) : limit_(limit) {}
  ~LimitCommand();
  LimitCommand(const LimitCommand&) = delete;
  LimitCommand& operator=(const LimitCommand&) = delete;

  /// Whether start() may be called: the previous process has ended.
  bool is_idle();
  /// Starts it, at `now` on the clock of poll(). If that fails the next poll() reports why.
  void start(double now);
  /// Its result, once; none while it runs, and before it was started.
  std::optional<LimitReading> poll(double now);

 private:
  void read_output();
  bool reap();
  void kill_all() const;
  std::optional<LimitReading> ended(const std::string& trouble);
  LimitReading reading() const;

  const Limit& limit_;
  pid_t process_ = -1;
  Descriptor output_;  ///< open while an answer is awaited
  int status_ = 0;     ///< as from waitpid()
  double started_ = 0;
  std::string text_;
  std::string failure_;  ///< why it could not be started
};

}  // namespace accrue::train
