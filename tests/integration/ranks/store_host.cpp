// Hosts stores of ranks, as a launcher's agent does: `store_host PORT...`, one store at each port,
// until it is killed.

#include <csignal>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

int main(int count, char** words) {
  if (count < 2) return 127;
  std::vector<c10::intrusive_ptr<c10d::TCPStore>> stores;
  for (int word = 1; word < count; ++word) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(std::atoi(words[word]));
    options.isServer = true;
    options.waitWorkers = false;
    stores.push_back(c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options));
  }
  sigset_t none;
  sigemptyset(&none);
  sigsuspend(&none);
}
