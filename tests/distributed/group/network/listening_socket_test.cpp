#include "distributed/group/network/listening_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accrue/core/error.h"
#include "distributed/ranks.h"

namespace accrue::distributed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& host, std::uint16_t port, Error::Kind kind) {
  try {
    listening_socket(host, port);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "none";
}

TEST(ListeningSocket, IsBoundToTheAddressOfTheName) {
  for (const char* host : {"127.0.0.1", "127.0.0.3"}) {
    const Descriptor socket = listening_socket(host, 0);
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ASSERT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    char text[INET_ADDRSTRLEN];
    EXPECT_STREQ(::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text), host);
    EXPECT_GT(ntohs(address.sin_port), 0) << "of the system's choice";
  }
}

TEST(ListeningSocket, RefusesWhatIsNotThisMachine) {
  // 192.0.2.0/24 is for documentation: no machine has it.
  EXPECT_THAT(refusal("192.0.2.1", 29500, Error::Kind::usage),
              AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("'192.0.2.1', which is none of this")));
  EXPECT_THAT(refusal("no such name.invalid", 29500, Error::Kind::usage),
              HasSubstr("no such name.invalid"));
}

TEST(ListeningSocket, NamesAPortThatIsTaken) {
  const Descriptor first = listening_socket("127.0.0.1", 0);
  const std::uint16_t port = accrue::testing::port_of(first.get());
  ASSERT_EQ(::listen(first.get(), 1), 0);
  EXPECT_THAT(refusal("127.0.0.1", port, Error::Kind::runtime),
              AllOf(HasSubstr("127.0.0.1:" + std::to_string(port)), HasSubstr("MASTER_PORT")));
}

}  // namespace
}  // namespace accrue::distributed
