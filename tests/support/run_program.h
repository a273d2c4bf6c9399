#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace accrue::testing {

/// Returns when it is so; throws after ten minutes, which ends the test and what it started.
inline void wait_until(const std::function<bool()>& is_so) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("the program does not come to what is waited for");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// A program that was started with its streams going to files of their own. One that nobody waited
/// for is killed at the end.
class Program {
 public:
  struct Result {
    int status = -1;  ///< the exit status, or 128 + the signal that killed it
    std::string output;
    std::string errors;
    long peak_resident_kibibytes = 0;
  };

  /// `folder` takes the streams and is the working directory; it must exist.
  Program(const std::filesystem::path& folder, std::vector<std::string> command)
      : output_(folder / "stdout.txt"), errors_(folder / "stderr.txt") {
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    process_ = ::fork();
    if (process_ != 0) return;
    redirect(output_, STDOUT_FILENO);
    redirect(errors_, STDERR_FILENO);
    if (::chdir(folder.c_str()) == 0) ::execv(words.front(), words.data());
    ::_exit(127);
  }

  ~Program() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Program(Program&& other) noexcept
      : output_(std::move(other.output_)),
        errors_(std::move(other.errors_)),
        process_(std::exchange(other.process_, -1)) {}
  Program& operator=(Program&&) = delete;

  pid_t process() const { return process_; }

  Result wait() {
    int status = 0;
    struct rusage usage {};
    ::wait4(std::exchange(process_, -1), &status, 0, &usage);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(output_),
            content(errors_), usage.ru_maxrss};
  }

 private:
  static void redirect(const std::filesystem::path& file, int stream) {
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(descriptor, stream);
    ::close(descriptor);
  }
  static std::string content(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::filesystem::path output_, errors_;
  pid_t process_ = -1;
};

}  // namespace accrue::testing
