#include "train/limits/limit_command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "core/spawn.h"
#include "train/limits/limit_file.h"

namespace accrue::train {
namespace {

/// Exit codes of a shell for a command that it cannot execute, or does not find.
constexpr int kNotExecutable = 126, kNotFound = 127;

}  // namespace

LimitCommand::~LimitCommand() {
  if (process_ <= 0) return;
  kill_all();
  // A process that the kernel blocks (a file system that is gone) is not waited for.
  constexpr int kTimes = 100;
  for (int i = 0; i < kTimes && !reap(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool LimitCommand::is_idle() { return !output_ && failure_.empty() && reap(); }

void LimitCommand::start(double now) {
  started_ = now;
  text_.clear();
  Spawned shell = spawn({"/bin/sh", "-c", limit_.command}, ProcessGroup::own);
  process_ = shell.process;
  if (shell.error != 0) {
    failure_ = std::strerror(shell.error);
    return;
  }
  output_ = std::move(shell.output);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
}

std::optional<LimitReading> LimitCommand::poll(double now) {
  if (!failure_.empty())
    return LimitReading{.value = std::nullopt, .trouble = std::exchange(failure_, {})};
  if (!output_) return std::nullopt;
  const bool is_done = reap();
  read_output();
  if (text_.size() > kBytes) return ended("it writes more than 64 KiB");
  if (is_done) return ended("");
  if (now - started_ > kSeconds) return ended("it takes more than 10 s");
  return std::nullopt;
}

/// Reads the available output, and of too much output only enough to show that it is too much.
void LimitCommand::read_output() {
  std::array<char, 4096> part{};
  while (text_.size() <= kBytes) {
    const ssize_t count = ::read(output_.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text_.append(part.data(), static_cast<std::size_t>(count));
  }
}

/// Whether the process has ended.
bool LimitCommand::reap() {
  if (process_ <= 0) return true;
  const pid_t found = ::waitpid(process_, &status_, WNOHANG);
  if (found == 0 || (found < 0 && errno == EINTR)) return false;
  if (found < 0) status_ = -1;  // another caller took its status
  process_ = -1;
  return true;
}

void LimitCommand::kill_all() const {
  if (::kill(-process_, SIGKILL) != 0) ::kill(process_, SIGKILL);
}

/// Its answer; if it still runs, `trouble` is the reason not to wait any longer.
std::optional<LimitReading> LimitCommand::ended(const std::string& trouble) {
  output_.reset();
  if (process_ > 0) kill_all();
  if (!trouble.empty()) return LimitReading{.value = std::nullopt, .trouble = trouble};
  return reading();
}

LimitReading LimitCommand::reading() const {
  const auto trouble = [](std::string why) {
    return LimitReading{.value = std::nullopt, .trouble = std::move(why)};
  };
  if (status_ == -1) return trouble("its exit status is not known");
  if (WIFSIGNALED(status_))
    return trouble("it ends by signal " + std::to_string(WTERMSIG(status_)));
  const int code = WEXITSTATUS(status_);
  if (code == kNotExecutable || code == kNotFound)
    return trouble("it cannot be run (exit status " + std::to_string(code) + ")");
  if (!limit_.above && !limit_.below) return {.value = code == 0 ? 1 : 0, .trouble = {}};
  if (code != 0) return trouble("it ends with status " + std::to_string(code));
  const std::optional<double> number = number_at_start(text_);
  if (!number) return trouble("what it writes does not begin with a number");
  return {.value = number, .trouble = {}};
}

}  // namespace accrue::train
