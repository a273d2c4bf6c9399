#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "core/descriptor.h"
#include "train/limits/limit_state.h"

namespace accrue::train {

/// Runs a limit's command, again and again, in a process of its own that nothing here waits for:
/// /bin/sh -c, without input, in a process group that no key of the terminal reaches. What it
/// writes to the standard error is lost. It is killed, with what it started, where it takes longer
/// than kSeconds or writes more than kBytes, and with this object.
class LimitCommand {
 public:
  static constexpr double kSeconds = 10;
  static constexpr std::size_t kBytes = 65536;

  /// The limit is kept by reference.
  explicit LimitCommand(const Limit& limit) : limit_(limit) {}
  ~LimitCommand();
  LimitCommand(const LimitCommand&) = delete;
  LimitCommand& operator=(const LimitCommand&) = delete;

  /// Whether start() may be called: the process of the last time is gone.
  bool is_idle();
  /// Starts it, at `now` on the clock of poll(). Where that fails the next poll() says why.
  void start(double now);
  /// What it came to, once; none while it runs, and before it was started.
  std::optional<LimitReading> poll(double now);

 private:
  void read_output();
  bool reap();
  void kill_all() const;
  std::optional<LimitReading> ended(const std::string& trouble);
  LimitReading reading() const;

  const Limit& limit_;
  pid_t process_ = -1;
  Descriptor output_;  ///< there while an answer is awaited
  int status_ = 0;     ///< as waitpid() has it
  double started_ = 0;
  std::string text_;
  std::string failure_;  ///< why it could not be started
};

}  // namespace accrue::train
