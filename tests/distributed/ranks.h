#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/run_program.h"

namespace accrue::testing {

/// A port of the loopback interface that was free a moment ago.
inline std::uint16_t free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(descriptor);
  return ntohs(address.sin_port);
}

/// The program that tests start as ranks: it lies beside the one that runs. No path of a build is
/// compiled in, so that ccache finds the tests' code again in another clone.
inline std::string rank_program() {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename("rank_program").string();
}

/// What a rank printed, by the first word of each line.
using Numbers = std::map<std::string, std::vector<double>>;

inline Numbers numbers_of(const std::string& output) {
  Numbers numbers;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (double value = 0; words >> value;) numbers[name].push_back(value);
  }
  return numbers;
}

/// The command of one rank.
using CommandOf = std::function<std::vector<std::string>(int rank)>;

/// Starts `started` of `world` ranks as processes that meet on the loopback interface, each in a
/// folder of its own below `folder`, with one thread. RANKS_STARTED tells them `started`.
inline std::vector<Program> start_ranks(const std::filesystem::path& folder, int world, int started,
                                        const CommandOf& command_of) {
  const std::string port = std::to_string(free_port());
  std::vector<Program> programs;
  for (int rank = 0; rank < started; ++rank) {
    const std::filesystem::path own = folder / ("rank" + std::to_string(rank));
    std::filesystem::create_directories(own);
    for (const char* mark : {"here", "connected"}) std::filesystem::remove(own / mark);
    std::vector<std::string> command{"/usr/bin/env",
                                     "RANK=" + std::to_string(rank),
                                     "WORLD_SIZE=" + std::to_string(world),
                                     "LOCAL_RANK=" + std::to_string(rank),
                                     "MASTER_ADDR=127.0.0.1",
                                     "MASTER_PORT=" + port,
                                     "RANKS_STARTED=" + std::to_string(started),
                                     "OMP_NUM_THREADS=1"};
    for (std::string& word : command_of(rank)) command.push_back(std::move(word));
    programs.emplace_back(own, std::move(command));
  }
  return programs;
}

inline std::vector<Program::Result> run_ranks(const std::filesystem::path& folder, int world,
                                              int started, const CommandOf& command_of) {
  std::vector<Program> programs = start_ranks(folder, world, started, command_of);
  std::vector<Program::Result> results;
  for (Program& program : programs) results.push_back(program.wait());
  return results;
}

}  // namespace accrue::testing
