#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifdef ACCRUE_STARTS_PROGRAMS_ONCE
#include "support/started_once.h"
#endif

namespace accrue::testing {

/// Returns when the condition is true; throws after two minutes, which ends the test.
inline void wait_until(const std::function<bool()>& is_so) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("the program does not come to what is waited for");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// Whether a program may be forked from one that has its libraries loaded (support/started_once.h),
/// where that is possible. `anew`: if its memory is measured or limited.
enum class Load { once, anew };

/// A program that was started with its streams going to separate files. If nobody waited for it, it
/// is killed at the end.
class Program {
 public:
  struct Result {
    int status = -1;  ///< the exit status, or 128 + the signal that killed it
    std::string output;
    std::string errors;
    /// Of a program that was loaded for this start (Load::anew); the largest number otherwise.
    long peak_resident_kibibytes = 0;
  };

  /// `folder` takes the streams and is the working directory; it must exist.
  Program(const std::filesystem::path& folder, std::vector<std::string> command,
          [[maybe_unused]] Load load = Load::once)
      : output_(folder / "stdout.txt"), errors_(folder / "stderr.txt") {
    const int output = opened(output_), errors = opened(errors_);
#ifdef ACCRUE_STARTS_PROGRAMS_ONCE
    if (load == Load::once)
      process_ = ProgramsStartedOnce::of_this_process().start(folder, output, errors, command);
#endif
    is_fork_ = process_ > 0;
    if (!is_fork_) process_ = started(folder, output, errors, command);
    ::close(output);
    ::close(errors);
  }

  ~Program() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Program(Program&& other) noexcept
      : output_(std::move(other.output_)),
        errors_(std::move(other.errors_)),
        process_(std::exchange(other.process_, -1)),
        is_fork_(other.is_fork_),
        kept_(std::move(other.kept_)) {}
  Program& operator=(Program&&) = delete;

  pid_t process() const { return process_; }

  /// Keeps `what` alive as long as this.
  void keep(std::shared_ptr<const void> what) { kept_ = std::move(what); }

  /// A program that does not end in two minutes is killed, and its errors say so.
  Result wait() {
    const bool hangs = !ends_in(std::chrono::minutes(2));
    if (hangs) ::kill(process_, SIGKILL);
    int status = 0;
    struct rusage usage {};
    ::wait4(std::exchange(process_, -1), &status, 0, &usage);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(output_),
            content(errors_) + (hangs ? "\n[killed by the test: it did not end]" : ""),
            is_fork_ ? std::numeric_limits<long>::max() : usage.ru_maxrss};
  }

 private:
  bool ends_in(std::chrono::milliseconds patience) const {
    const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process_, 0));
    pollfd ended{.fd = descriptor, .events = POLLIN, .revents = 0};
    int ready = 0;
    do ready = ::poll(&ended, 1, static_cast<int>(patience.count()));
    while (ready < 0 && errno == EINTR);
    ::close(descriptor);
    return ready == 1;
  }

  static int opened(const std::filesystem::path& file) {
    return ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  }
  static pid_t started(const std::filesystem::path& folder, int output, int errors,
                       std::vector<std::string>& command) {
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    const pid_t process = ::fork();
    if (process != 0) return process;
    ::dup2(output, STDOUT_FILENO);
    ::dup2(errors, STDERR_FILENO);
    if (::chdir(folder.c_str()) == 0) ::execv(words.front(), words.data());
    ::_exit(127);
  }
  static std::string content(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::filesystem::path output_, errors_;
  pid_t process_ = -1;
  bool is_fork_ = false;
  std::shared_ptr<const void> kept_;
};

}  // namespace accrue::testing
