// Hosts the store of ranks, as a launcher's agent does: `store_host PORT`, until it is killed.

#include <csignal>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

int main(int count, char** words) {
  if (count != 2) return 127;
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(std::atoi(words[1]));
  options.isServer = true;
  options.waitWorkers = false;
  const c10d::TCPStore store("127.0.0.1", options);
  sigset_t none;
  sigemptyset(&none);
  sigsuspend(&none);
}
