#include "distributed/group/liveness/rank_process.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

namespace accrue::distributed {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPauseOfStopped{20};

std::string first_line_of(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

/// The fields of a process in /proc/NUMBER/stat (proc(5)).
struct Stat {
  std::string state;  ///< field 3
  std::string start;  ///< field 22, in clock ticks since the boot
};

/// None if there is no such process.
std::optional<Stat> stat_of(pid_t number) {
  const std::string line = first_line_of("/proc/" + std::to_string(number) + "/stat");
  const std::size_t name_end = line.rfind(')');  // the name may have blanks and brackets
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  Stat stat;
  fields >> stat.state;
  constexpr int between = 22 - 3;
  for (int field = 0; field < between; ++field) fields >> stat.start;
  return fields ? std::optional(stat) : std::nullopt;
}

/// Two processes with the same text see each other by the same numbers.
std::string place_of_numbers() {
  std::error_code failure;
  const fs::path names = fs::read_symlink("/proc/self/ns/pid", failure);
  return failure ? "" : first_line_of("/proc/sys/kernel/random/boot_id") + " " + names.string();
}

std::string text_of(pid_t number, const Stat& stat) {
  const std::string place = place_of_numbers();
  return place.empty() ? "" : place + " " + std::to_string(number) + " " + stat.start;
}

/// The file of the program that a process runs; empty if it is another user's.
fs::path program_of(const std::string& process) {
  std::error_code failure;
  return fs::read_symlink("/proc/" + process + "/exe", failure);
}

/// The number in a text; 0 if it has none.
pid_t number_in(std::string_view text) {
  pid_t number = 0;
  std::size_t at = text.rfind(' ');
  if (at == std::string_view::npos || at == 0) return 0;
  at = text.rfind(' ', at - 1);
  if (at == std::string_view::npos) return 0;
  std::from_chars(text.data() + at + 1, text.data() + text.size(), number);
  return number;
}

/// The process of that text, if it is on this machine and has not ended.
struct Found {
  pid_t number = 0;
  Stat stat;
};

std::optional<Found> find(const std::string& text) {
  const pid_t number = number_in(text);
  if (number <= 1 || number == ::getpid()) return std::nullopt;
  const std::optional<Stat> stat = stat_of(number);
  if (!stat || text_of(number, *stat) != text) return std::nullopt;
  // Writers into a store without a token must not be able to name any process of this user.
  if (program_of(std::to_string(number)) != program_of("self")) return std::nullopt;
  return Found{number, *stat};
}

}  // namespace

RankProcess RankProcess::own() {
  const std::optional<Stat> stat = stat_of(::getpid());
  return RankProcess(stat ? text_of(::getpid(), *stat) : "");
}

bool RankProcess::is_stopped() const {
  const std::optional<Found> found = find(text_);
  return found && found->stat.state == "T";
}

void RankProcess::kill() const {
  if (const std::optional<Found> found = find(text_)) ::kill(found->number, SIGKILL);
}

void end_stopped(std::vector<PendingExit> processes) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    const auto waited = std::chrono::steady_clock::now() - begin;
    std::erase_if(processes, [&](const PendingExit& awaited) {
      if (!awaited.process.is_stopped()) return true;
      if (waited < awaited.patience) return false;
      awaited.process.kill();
      return true;
    });
    if (processes.empty()) return;
    std::this_thread::sleep_for(kPauseOfStopped);
  }
}

}  // namespace accrue::distributed
