#include "core/working_copy.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "core/spawn.h"

namespace accrue {
namespace {

using Clock = std::chrono::steady_clock;

/// A program whose output is read here and whose other streams are discarded.
class Child {
 public:
  explicit Child(std::vector<std::string> command)
      : spawned_(spawn(std::move(command), ProcessGroup::ours)) {}
  ~Child() {
    if (spawned_.process <= 0) return;
    ::kill(spawned_.process, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// All of its output, if it ends successfully and in time.
  std::optional<std::string> output(Clock::time_point deadline) {
    if (spawned_.process <= 0) return std::nullopt;
    std::string text;
    std::array<char, 256> part{};
    while (is_ready(deadline)) {
      const ssize_t count = ::read(spawned_.output.get(), part.data(), part.size());
      if (count < 0 && errno == EINTR) continue;
      if (count > 0) {
        text.append(part.data(), static_cast<std::size_t>(count));
        continue;
      }
      return count == 0 && wait() == 0 ? std::optional(text) : std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool is_ready(Clock::time_point deadline) const {
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd output{.fd = spawned_.output.get(), .events = POLLIN, .revents = 0};
      const int count = left > 0 ? ::poll(&output, 1, static_cast<int>(left)) : 0;
      if (count < 0 && errno == EINTR) continue;
      return count > 0;
    }
  }

  /// Its exit status; -1 if it has none.
  int wait() {
    int status = 0;
    while (::waitpid(spawned_.process, &status, 0) < 0)
      if (errno != EINTR) break;
    spawned_.process = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  Spawned spawned_;
};

/// The commit and its suffix in the output of `git status --porcelain=v2 --branch`: "# branch.oid
/// COMMIT" among other headers, then one line per modified file.
std::optional<std::string> commit_in(const std::string& status) {
  constexpr std::string_view header = "# branch.oid ";
  std::string commit;
  bool dirty = false;
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(header))
      commit = line.substr(header.size());
    else if (!line.starts_with('#'))
      dirty = true;
  if (commit.empty() || commit == "(initial)") return std::nullopt;
  return commit + (dirty ? "-dirty" : "");
}

}  // namespace

std::optional<std::string> commit_of(const std::filesystem::path& folder) {
  constexpr auto patience = std::chrono::seconds(10);
  Child git({"git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", folder.string(),
             "status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--untracked-files=no"});
  const std::optional<std::string> status = git.output(Clock::now() + patience);
  return status ? commit_in(*status) : std::nullopt;
}

}  // namespace accrue
