#include "observe/history/run_state.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <string>

#include "core/atomic_file.h"
#include "core/open_file.h"
#include "observe/history/run_facts.h"

namespace accrue::observe {
namespace {

using nlohmann::json;

std::string this_host() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

bool names_a_living_process(const std::filesystem::path& lock) {
  const json who = parse_run_json(read_file(lock));
  const auto process = count_of(fact(who, "process"));
  if (fact(who, "host") != this_host() || !process || *process == 0) return false;
  return ::kill(static_cast<pid_t>(*process), 0) == 0 || errno == EPERM;
}

/// The time of the last resumption in run.json; empty if there was none.
std::string last_resumption(const json& run) {
  const json& resumed = fact(run, "resumed");
  if (!resumed.is_array() || resumed.empty()) return "";
  const json& time = fact(resumed.back(), "time");
  return time.is_string() ? time.get<std::string>() : "";
}

/// How the last attempt ended, if run.json states it.
std::optional<RunState> stated_end(const json& run) {
  const json& ended = fact(run, "ended");
  const json& time = fact(ended, "time");
  // All times have the same form (ISO 8601, UTC), in which they sort as text.
  if (time.is_string() && time.get<std::string>() < last_resumption(run)) return std::nullopt;
  const json& state = fact(ended, "state");
  return state.is_string() ? run_state_words.find(state.get<std::string>()) : std::nullopt;
}

}  // namespace

bool is_claimed(const std::filesystem::path& root) {
  const std::filesystem::path lock = root / ".accrue-lock";
  std::error_code unreadable;
  if (std::filesystem::is_symlink(lock, unreadable)) return false;
  const OpenedFile opened = open_to_read(lock);
  if (!opened || ::flock(opened.file.get(), LOCK_SH | LOCK_NB) == 0) return false;
  const int error = errno;
  return error == EWOULDBLOCK || names_a_living_process(lock);
}

RunState state_when_left(const json& run, std::optional<std::int64_t> total_steps,
                         std::optional<std::int64_t> last_step) {
  if (const auto stated = stated_end(run)) return *stated;
  const bool is_done = total_steps && last_step && *last_step >= *total_steps;
  return is_done ? RunState::done : RunState::stopped;
}

}  // namespace accrue::observe
