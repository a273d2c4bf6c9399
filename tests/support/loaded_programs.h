#pragma once

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

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

 private:
  void add(const std::string& assignment) {
    const std::size_t equals = assignment.find('=');
    variables[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
};

/// A program that has its libraries loaded and waits (loaded_program.cpp).
class LoadedProgram {
 public:
  /// `variables` are those that libraries read when they are loaded.
  LoadedProgram(const std::string& library, const std::string& program,
                std::map<std::string, std::string> variables) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
    socket_ = ends[0];
    std::string& preloaded = variables["LD_PRELOAD"];
    preloaded = library + (preloaded.empty() ? "" : ":" + preloaded);
    variables["ACCRUE_LOADED_PROGRAM"] = std::to_string(ends[1]);
    std::vector<std::string> assignments;
    for (const auto& [name, value] : variables) assignments.push_back(name + "=" + value);
    std::vector<char*> environment;
    for (std::string& assignment : assignments) environment.push_back(assignment.data());
    environment.push_back(nullptr);
    std::array<char*, 2> words{const_cast<char*>(program.c_str()), nullptr};
    if (::fork() == 0) {
      // It holds nothing open of what a test holds open: a reserved port, say.
      ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
      ::fcntl(ends[1], F_SETFD, 0);
      ::execve(words[0], words.data(), environment.data());
      ::_exit(127);
    }
    ::close(ends[1]);
  }
  ~LoadedProgram() { ::close(socket_); }
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  /// The process of the program, a child of this one.
  pid_t start(const std::string& request) const {
    pid_t started = -1;
    if (::send(socket_, request.data(), request.size(), MSG_NOSIGNAL) < 0 ||
        ::recv(socket_, &started, sizeof started, 0) != sizeof started)
      throw std::runtime_error("a program that waits with its libraries loaded has ended");
    return started;
  }

 private:
  int socket_ = -1;
};

/// The programs that this process starts more than once with the same variables.
class LoadedPrograms {
 public:
  static LoadedPrograms& of_this_process() {
    static LoadedPrograms programs;
    return programs;
  }

  /// The process of the command, a child of this one; 0 if it is to be started as it is: a
  /// program of the system, the first one with its variables, or one whose test is about its load.
  pid_t start(const std::filesystem::path& folder, const std::filesystem::path& output,
              const std::filesystem::path& errors, const std::vector<std::string>& command) {
    static const std::string library = LoadedPrograms::library();
    Start start(command);
    if (library.empty() || !may_be_loaded(start)) return 0;
    const std::string program = start.words.front();
    std::map<std::string, std::string> early = start.variables;
    std::erase_if(early, [](const auto& variable) { return is_read_late(variable.first); });
    const auto [found, is_first] = programs_.try_emplace({program, early});
    if (is_first) return 0;
    if (!found->second) {
      ::prctl(PR_SET_CHILD_SUBREAPER, 1);
      found->second = std::make_unique<LoadedProgram>(library, program, early);
    }
    std::string request;
    const auto add = [&](const std::string& text) { request.append(text).push_back('\0'); };
    for (const auto& path : {folder, output, errors}) add(path.string());
    add(std::to_string(start.words.size()));
    for (const std::string& word : start.words) add(word);
    for (const auto& [name, value] : start.variables) add(name + "=" + value);
    return request.size() > kMostBytes ? 0 : found->second->start(request);
  }

 private:
  static constexpr std::size_t kMostBytes = 1 << 17;

  /// In the folder of the tests that has the running one; empty where it is not to be used, or is
  /// not built. No path of a build is compiled in, so that ccache finds the tests' code again in
  /// another clone.
  static std::string library() {
#ifdef ACCRUE_LOADS_PROGRAMS_ONCE
    auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    for (; folder != folder.root_path(); folder = folder.parent_path())
      if (const auto file = folder / "support/libloaded_program.so"; std::filesystem::exists(file))
        return file.string();
#endif
    return "";
  }

  /// Of a rank, and of faults (tests/faults/fault_points.cpp): no library reads them before main.
  static bool is_read_late(std::string_view name) {
    constexpr std::array<std::string_view, 11> names{
        "RANK",         "WORLD_SIZE",          "LOCAL_RANK",    "MASTER_ADDR",   "MASTER_PORT",
        "ACCRUE_FAULT", "ACCRUE_FAULT_FOLDER", "RANKS_STARTED", "ACCRUE_RUN_ID", "ACCRUE_STORE",
        "PWD"};
    return std::ranges::find(names, name) != names.end() || name.starts_with("TORCHELASTIC_");
  }

  static bool may_be_loaded(const Start& start) {
    const auto value_of = [&](const char* name) {
      const auto found = start.variables.find(name);
      return found == start.variables.end() ? std::string() : found->second;
    };
    const std::string preloaded = value_of("LD_PRELOAD");
    return !start.words.empty() && start.words.front().starts_with('/') &&
           !start.words.front().starts_with("/usr/") && !start.words.front().starts_with("/bin/") &&
           (preloaded.empty() || preloaded.ends_with("/libfault_points.so")) &&
           value_of("ACCRUE_FAULT").find("at=load ") == std::string::npos;
  }

  std::map<std::pair<std::string, std::map<std::string, std::string>>,
           std::unique_ptr<LoadedProgram>>
      programs_;
};

}  // namespace accrue::testing
