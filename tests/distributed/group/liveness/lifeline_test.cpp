#include "distributed/group/liveness/lifeline.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "distributed/group/network/addresses.h"
#include "distributed/store_fixture.h"

namespace accrue::distributed {
namespace {

/// The other end of a connection that a lifeline watches.
class Peer {
 public:
  Peer() : listening_(listening_socket(kHost, 0)) { ::listen(listening_.get(), 1); }

  std::string place() const {
    return std::string(kHost) + " " + std::to_string(place_of(listening_).port);
  }
  void let_in() { connection_ = Descriptor(::accept(listening_.get(), nullptr, nullptr)); }
  void say(char greeting) { ASSERT_EQ(::send(connection_.get(), &greeting, 1, MSG_NOSIGNAL), 1); }
  void cut() { connection_ = Descriptor(); }
  void die() {
    listening_ = Descriptor();
    cut();
  }

 private:
  Descriptor listening_;
  Descriptor connection_;
};

Descriptor connected(const std::string& place) {
  const std::size_t at = place.find(' ');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(place.substr(at + 1))));
  ::inet_pton(AF_INET, place.substr(0, at).c_str(), &address.sin_addr);
  Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  return socket;
}

/// The bytes on a connection until it ends.
std::string all_of(const Descriptor& socket) {
  std::string text;
  std::array<char, 16> bytes{};
  for (ssize_t count = 1; count > 0; text.append(bytes.data(), static_cast<std::size_t>(count)))
    count = std::max<ssize_t>(::recv(socket.get(), bytes.data(), bytes.size(), 0), 0);
  return text;
}

char first_of(const Descriptor& socket) {
  char first = 0;
  EXPECT_EQ(::recv(socket.get(), &first, 1, 0), 1);
  return first;
}

class LifelineTest : public StoreTest {
 protected:
  /// Watches a peer that greets and dies, and waits until that is reported: by then all earlier
  /// deaths have been reported as well.
  void see_that_deaths_are_told(Lifeline& lifeline) {
    const std::string key = "ended/last " + std::to_string(++deaths_);
    Peer peer;
    lifeline.watch(peer.place(), texts(), {{key, "1"}});
    peer.let_in();
    peer.say('!');
    peer.die();
    accrue::testing::wait_until([&] { return texts().read(key).text == "1"; });
  }

 private:
  int deaths_ = 0;
};

TEST_F(LifelineTest, EndsWithItsProcess) {
  std::optional<Lifeline> lifeline(kHost);
  const Descriptor watching = connected(lifeline->place());
  EXPECT_EQ(first_of(watching), '!');
  lifeline.reset();
  EXPECT_EQ(all_of(watching), "");
}

TEST_F(LifelineTest, TellsWhenThatOfAnotherEnds) {
  Lifeline lifeline(kHost);
  see_that_deaths_are_told(lifeline);
  see_that_deaths_are_told(lifeline);
}

/// A peer that greets when it is asked once more lives, and is watched as before.
TEST_F(LifelineTest, OneWhoseConnectionAloneEndedIsNotDead) {
  Lifeline lifeline(kHost);
  Peer peer;
  lifeline.watch(peer.place(), texts(), {{"ended/cut", "rank 1"}});
  for (int cuts = 0; cuts < 3; ++cuts) {
    peer.let_in();
    peer.say('!');
    peer.cut();
  }
  peer.let_in();
  EXPECT_FALSE(texts().has("ended/cut"));
  peer.say('!');
  peer.die();
  accrue::testing::wait_until([&] { return texts().read("ended/cut").text == "rank 1"; });
}

TEST_F(LifelineTest, OneThatWasNeverGreetedTellsOfNoDeath) {
  Lifeline lifeline(kHost);
  Peer peer;
  lifeline.watch(peer.place(), texts(), {{"ended/silent", "1"}});
  peer.let_in();
  peer.die();
  see_that_deaths_are_told(lifeline);
  EXPECT_FALSE(texts().has("ended/silent"));
}

TEST_F(LifelineTest, OneThatIsWatchedNoMoreTellsOfNoDeath) {
  Lifeline lifeline(kHost);
  Peer peer;
  lifeline.watch(peer.place(), texts(), {{"ended/left", "1"}});
  peer.let_in();
  peer.say('!');
  see_that_deaths_are_told(lifeline);
  peer.die();
  see_that_deaths_are_told(lifeline);
  EXPECT_FALSE(texts().has("ended/left"));
}

TEST_F(LifelineTest, APlaceThatIsNoneIsNotWatched) {
  Lifeline lifeline(kHost);
  for (const char* place : {"", " ", "127.0.0.1", "127.0.0.1 ", "127.0.0.1 70000", "127.0.0.1 7x",
                            "no such name.invalid 80", "127.0.0.1 1"}) {
    lifeline.watch(place, texts(), {{"ended/none", "1"}});
    see_that_deaths_are_told(lifeline);
  }
  EXPECT_FALSE(texts().has("ended/none"));
}

TEST_F(LifelineTest, StrangersThatConnectAreHeldInBounds) {
  const Lifeline lifeline(kHost);
  const Descriptor watching = connected(lifeline.place());
  EXPECT_EQ(first_of(watching), '!');
  std::vector<Descriptor> strangers;
  int let_in = 0;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(connected(lifeline.place()));
    char greeting = 0;
    let_in += ::recv(strangers.back().get(), &greeting, 1, 0) == 1 ? 1 : 0;
  }
  EXPECT_EQ(let_in, 63);
  // One that sends data is disconnected, and leaves room for another.
  ASSERT_EQ(::send(strangers.front().get(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(all_of(strangers.front()), "");
  EXPECT_EQ(first_of(connected(lifeline.place())), '!');
  char more = 0;
  EXPECT_EQ(::recv(watching.get(), &more, 1, MSG_DONTWAIT), -1) << "who was there stays";
}

}  // namespace
}  // namespace accrue::distributed
