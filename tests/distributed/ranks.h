#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "support/run_program.h"

namespace accrue::testing {

/// The port that a socket is bound to.
inline std::uint16_t port_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::system_error(errno, std::generic_category(), "getsockname");
  return ntohs(address.sin_port);
}

/// A port of the loopback interface that the system chose. It stays reserved while this exists: the
/// system gives it to no other program, and a program that knows it can listen at it, because both
/// set SO_REUSEADDR and this one does not listen.
class ReservedPort {
 public:
  ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw std::system_error(errno, std::generic_category(), "bind");
  }
  ~ReservedPort() { ::close(socket_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  std::uint16_t number() const { return port_of(socket_); }

 private:
  int socket_;
};

/// The program that tests start as ranks: it is next to the running one. No path of a build is
/// compiled in, so that ccache finds the tests' code again in another clone.
inline std::string rank_program() {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename("rank_program").string();
}

/// A rank's output, by the first word of each line.
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
/// separate folder below `folder`, with one thread. RANKS_STARTED has `started` for them.
inline std::vector<Program> start_ranks(const std::filesystem::path& folder, int world, int started,
                                        const CommandOf& command_of, Load load = Load::once) {
  const auto port = std::make_shared<const ReservedPort>();
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
                                     "MASTER_PORT=" + std::to_string(port->number()),
                                     "RANKS_STARTED=" + std::to_string(started),
                                     "OMP_NUM_THREADS=1"};
    for (std::string& word : command_of(rank)) command.push_back(std::move(word));
    programs.emplace_back(own, std::move(command), load).keep(port);
  }
  return programs;
}

inline std::vector<Program::Result> run_ranks(const std::filesystem::path& folder, int world,
                                              int started, const CommandOf& command_of,
                                              Load load = Load::once) {
  std::vector<Program> programs = start_ranks(folder, world, started, command_of, load);
  std::vector<Program::Result> results;
  for (Program& program : programs) results.push_back(program.wait());
  return results;
}

}  // namespace accrue::testing
