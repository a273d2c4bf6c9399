#include "train/limits/limit_command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "train/limits/limit_file.h"

namespace accrue::train {
namespace {

/// What a shell says of a command that it does not find, or cannot execute.
constexpr int kNotExecutable = 126, kNotFound = 127;

/// The two ends of a pipe that no other process inherits.
struct Pipe {
  int reading = -1, writing = -1;
};

std::optional<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{ends[0], ends[1]};
}

/// Starts /bin/sh in a process group of its own. Returns an error number, 0 where it runs.
int spawn_shell(const std::string& command, int output, pid_t& process) {
  std::string shell = "/bin/sh", option = "-c", text = command;
  std::array<char*, 4> words{shell.data(), option.data(), text.data(), nullptr};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  const int error =
      ::posix_spawn(&process, shell.c_str(), &files, &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

LimitCommand::~LimitCommand() {
  if (output_ >= 0) ::close(output_);
  if (process_ <= 0) return;
  kill_all();
  // A process that the kernel holds up (a file system that is gone) is not waited for.
  constexpr int kTimes = 100;
  for (int i = 0; i < kTimes && !reap(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool LimitCommand::is_idle() { return output_ < 0 && failure_.empty() && reap(); }

void LimitCommand::start(double now) {
  started_ = now;
  text_.clear();
  spawn();
}

void LimitCommand::spawn() {
  const std::optional<Pipe> pipe = make_pipe();
  if (!pipe) {
    failure_ = std::strerror(errno);
    return;
  }
  const int error = spawn_shell(limit_.command, pipe->writing, process_);
  ::close(pipe->writing);
  if (error == 0) {
    output_ = pipe->reading;
    return;
  }
  process_ = -1;
  ::close(pipe->reading);
  failure_ = std::strerror(error);
}

std::optional<LimitReading> LimitCommand::poll(double now) {
  if (!failure_.empty())
    return LimitReading{.value = std::nullopt, .trouble = std::exchange(failure_, {})};
  if (output_ < 0) return std::nullopt;
  const bool is_done = reap();
  read_output();
  if (text_.size() > kBytes) return ended("it writes more than 64 KiB");
  if (is_done) return ended("");
  if (now - started_ > kSeconds) return ended("it takes more than 10 s");
  return std::nullopt;
}

/// Reads what there is, and of too much no more than shows that it is.
void LimitCommand::read_output() {
  std::array<char, 4096> part{};
  while (text_.size() <= kBytes) {
    const ssize_t count = ::read(output_, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text_.append(part.data(), static_cast<std::size_t>(count));
  }
}

/// Whether there is no process any more.
bool LimitCommand::reap() {
  if (process_ <= 0) return true;
  const pid_t found = ::waitpid(process_, &status_, WNOHANG);
  if (found == 0 || (found < 0 && errno == EINTR)) return false;
  if (found < 0) status_ = -1;  // somebody else took its status
  process_ = -1;
  return true;
}

void LimitCommand::kill_all() const {
  if (::kill(-process_, SIGKILL) != 0) ::kill(process_, SIGKILL);
}

/// Its answer; `trouble` says why it is not waited for any longer, where it still runs.
std::optional<LimitReading> LimitCommand::ended(const std::string& trouble) {
  ::close(std::exchange(output_, -1));
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
