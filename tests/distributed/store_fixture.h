#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "distributed/group/network/listening_socket.h"
#include "distributed/group/store/sealed_texts.h"
#include "distributed/group/store/tcp_client.h"
#include "distributed/ranks.h"

namespace accrue::distributed {

inline constexpr const char* kHost = "127.0.0.1";
inline const std::string kFolder = "accrue/0";
inline const std::string kTokenOfStore = "a token of some length";

/// A store as hosted by rank 0. `plain` is c10d's own client, whose texts have no seal: a
/// stranger's.
class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    c10d::TCPStoreOptions options;
    Descriptor socket = listening_socket(kHost, 0);
    options.port = port_ = accrue::testing::port_of(socket.get());
    options.isServer = true;
    options.waitWorkers = false;
    options.masterListenFd = socket.release();
    plain = c10::make_intrusive<c10d::PrefixStore>(
        kFolder, c10::make_intrusive<c10d::TCPStore>(kHost, options));
  }

  std::shared_ptr<StoreClient> client() const { return std::make_shared<TcpClient>(kHost, port_); }
  SealedTexts texts(const std::string& token = kTokenOfStore,
                    const std::string& run = "run") const {
    return {client(), kFolder, TextSeal(token, run)};
  }
  void write_what_is_too_long(const std::string& key) const {
    const std::vector<std::uint8_t> part(StoreClient::kLongest);
    plain->set(key, part);
    plain->append(key, part);
  }

  c10::intrusive_ptr<c10d::Store> plain;

 private:
  std::uint16_t port_ = 0;
};

}  // namespace accrue::distributed
