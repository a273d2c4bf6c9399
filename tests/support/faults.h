#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace accrue::testing {

/// A fault of a process at a named point: tests/faults/fault_points.cpp.
struct Fault {
  std::string at;  ///< a span of a trace without its spaces, as "reduce:bucket", or "load"
  /// kill, stop, TERM, INT, HUP, XCPU, USR1, USR2, tell:NAME, pause:NAME, clock:SECONDS,
  /// sleep:SECONDS or fail:CALL:ERROR.
  std::string action;
  std::int64_t step{};     ///< of this process, from 1 on; 0: any
  std::int64_t count = 1;  ///< which arrival, of that step if one is named; 0: every
};

inline std::string to_text(const Fault& fault) {
  return "at=" + fault.at + " do=" + fault.action +
         (fault.step > 0 ? " step=" + std::to_string(fault.step) : "") +
         " count=" + (fault.count > 0 ? std::to_string(fault.count) : "every");
}

/// The words for `env` that arm these faults in the program that it starts; none without faults.
/// `folder` has the FIFOs of faults that tell or pause (see Pause).
inline std::vector<std::string> armed(const std::vector<Fault>& faults,
                                      const std::filesystem::path& folder) {
  if (faults.empty()) return {};
  std::string all;
  for (const Fault& fault : faults) all += to_text(fault) + ";";
  return {std::string("LD_PRELOAD=") + ACCRUE_FAULT_POINTS, "ACCRUE_FAULT=" + all,
          "ACCRUE_FAULT_FOLDER=" + folder.string()};
}

/// The faults of each rank.
using FaultsOfRanks = std::map<int, std::vector<Fault>>;

/// The words of a rank's command, for `env`, after those that arm its faults.
inline std::vector<std::string> with_faults(const FaultsOfRanks& faults, int rank,
                                            const std::filesystem::path& folder,
                                            std::vector<std::string> command) {
  const auto found = faults.find(rank);
  if (found == faults.end()) return command;
  const std::vector<std::string> words = armed(found->second, folder);
  command.insert(command.begin(), words.begin(), words.end());
  return command;
}

/// The two FIFOs by which a test meets a process at a point: with `pause:NAME`, or with
/// `tell:NAME`, for which the process does not wait.
class Pause {
 public:
  Pause(const std::filesystem::path& folder, const std::string& name)
      : arrived_(folder / (name + ".arrived")), go_(folder / (name + ".go")) {
    for (const auto& fifo : {arrived_, go_}) {
      std::filesystem::remove(fifo);
      if (::mkfifo(fifo.c_str(), 0600) != 0) throw std::runtime_error("mkfifo " + fifo.string());
    }
    descriptor_ = ::open(arrived_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  ~Pause() { ::close(descriptor_); }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  /// Returns once the process is at the point; throws after two minutes.
  void wait() const {
    pollfd ready{.fd = descriptor_, .events = POLLIN, .revents = 0};
    char byte = 0;
    if (::poll(&ready, 1, 120 * 1000) != 1 || ::read(descriptor_, &byte, 1) != 1)
      throw std::runtime_error("no process came to " + arrived_.string());
  }
  /// Lets the process continue, which is at the point, or soon will be.
  void release() const { ::close(::open(go_.c_str(), O_WRONLY | O_CLOEXEC)); }

 private:
  std::filesystem::path arrived_, go_;
  int descriptor_ = -1;
};

}  // namespace accrue::testing
