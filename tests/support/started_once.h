#pragma once

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "support/start_request.h"

namespace accrue::testing {

/// The command and the variables of a process that is to be started.
struct Start {
  std::vector<std::string> words;
  std::map<std::string, std::string> variables;

  /// `command` may begin with `/usr/bin/env` and assignments, which are added to this process's
  /// variables.
  explicit Start(std::vector<std::string> command) : words(std::move(command)) {
    for (char** variable = environ; *variable != nullptr; ++variable) add(*variable);
    if (words.front() != "/usr/bin/env") return;
    words.erase(words.begin());
    while (!words.empty() && words.front().find('=') != std::string::npos) {
      add(words.front());
      words.erase(words.begin());
    }
  }

  std::vector<std::string> assignments() const {
    std::vector<std::string> all;
    for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
    return all;
  }

 private:
  void add(const std::string& assignment) {
    const std::size_t equals = assignment.find('=');
    variables[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
};

/// A program that has its libraries loaded and waits for requests (started_once.cpp). It ends with
/// this.
class StartedOnce {
 public:
  /// `start` has the variables that libraries read when they are loaded.
  StartedOnce(const std::filesystem::path& library, const Start& start) {
    const int listening = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    std::array<int, 2> pipe{};
    // An address of the kernel's choice, and not a file.
    if (listening < 0 || ::pipe2(pipe.data(), O_CLOEXEC) != 0 ||
        ::bind(listening, address(), sizeof(sa_family_t)) != 0 || ::listen(listening, 64) != 0 ||
        ::getsockname(listening, address(), &size_) != 0)
      throw std::system_error(errno, std::generic_category(), "a program that is loaded once");
    Start loaded = start;
    std::string& preloaded = loaded.variables["LD_PRELOAD"];
    preloaded = library.string() + (preloaded.empty() ? "" : ":" + preloaded);
    // Faults are those of each start.
    std::erase_if(loaded.variables,
                  [](const auto& variable) { return variable.first.starts_with("ACCRUE_FAULT"); });
    std::vector<std::string> assignments = loaded.assignments();
    assignments.push_back("ACCRUE_STARTED_ONCE=" + std::to_string(listening));
    std::vector<char*> environment;
    for (std::string& assignment : assignments) environment.push_back(assignment.data());
    environment.push_back(nullptr);
    std::array<char*, 2> words{loaded.words.front().data(), nullptr};
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(pipe[0], STDIN_FILENO);
      ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
      // It holds nothing open of what a test holds open: a reserved port, say.
      ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
      ::fcntl(listening, F_SETFD, 0);
      ::execve(words[0], words.data(), environment.data());
      ::_exit(127);
    }
    ::close(pipe[0]);
    ::close(listening);
    lifeline_ = pipe[1];
  }
  ~StartedOnce() {
    ::close(lifeline_);
    ::waitpid(process_, nullptr, 0);
  }
  StartedOnce(const StartedOnce&) = delete;
  StartedOnce& operator=(const StartedOnce&) = delete;

  /// A child of this process, or 0 if it has to be started otherwise.
  pid_t start(const StartRequest& request) const {
    const Answer answer = ask(address_, size_, request);
    return answer.is_started != 0 ? answer.number : 0;
  }

 private:
  sockaddr* address() { return reinterpret_cast<sockaddr*>(&address_); }

  sockaddr_un address_{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t size_ = sizeof address_;
  pid_t process_ = -1;
  int lifeline_ = -1;
};

/// The programs that this process starts more than once in an environment.
class ProgramsStartedOnce {
 public:
  static ProgramsStartedOnce& of_this_process() {
    static ProgramsStartedOnce programs;
    return programs;
  }

  /// The process of the command, a child of this one; 0 if it has to be started otherwise: a
  /// program of the system, the first one in its environment, one whose test is about its load, or
  /// one that has a budget of memory, of which a fork shares a part with what it is forked from.
  pid_t start(const std::filesystem::path& folder, int output, int errors,
              const std::vector<std::string>& command) {
    const std::lock_guard lock(mutex_);
    const Start start(command);
    if (library_.empty() || process_ != ::getpid() || !can_be_forked(start)) return 0;
    StartRequest request{.is_for_child = true,
                         .words = start.words,
                         .variables = start.assignments(),
                         .streams = {STDIN_FILENO, output, errors}};
    const auto [found, is_first] =
        programs_.try_emplace({start.words.front(), read_when_loaded(request.variables)});
    if (is_first) return 0;
    if (!found->second) {
      ::prctl(PR_SET_CHILD_SUBREAPER, 1);
      found->second = std::make_unique<StartedOnce>(library_, start);
    }
    request.folder = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    const pid_t started = found->second->start(request);
    ::close(request.folder);
    return started;
  }

 private:
  /// In the folder of the tests that has the running one; empty if it is not built. No path of a
  /// build is compiled in, so that ccache finds the tests' code again in another clone.
  static std::filesystem::path library() {
    auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    for (; folder != folder.root_path(); folder = folder.parent_path())
      if (auto file = folder / "support/libstarted_once.so"; std::filesystem::exists(file))
        return file;
    return {};
  }

  static bool can_be_forked(const Start& start) {
    if (start.words.empty()) return false;
    const std::string& program = start.words.front();
    const bool is_of_a_build =
        program.starts_with('/') && !program.starts_with("/usr/") && !program.starts_with("/bin/");
    // Others read variables when they are loaded.
    const auto preloaded = start.variables.find("LD_PRELOAD");
    const bool is_armed_late = preloaded == start.variables.end() || preloaded->second.empty() ||
                               preloaded->second.ends_with("/libfault_points.so");
    const bool has_budget = std::ranges::any_of(start.words, [](const std::string& word) {
      return word.starts_with("--memory.budget") && word != "--memory.budget=none";
    });
    return is_of_a_build && is_armed_late && !has_budget && !acts_when_loaded(start.assignments());
  }

  using Environment = std::pair<std::string, std::vector<std::string>>;

  const std::filesystem::path library_ = library();
  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::map<Environment, std::unique_ptr<StartedOnce>> programs_;
};

}  // namespace accrue::testing
