// The client of an etcd cluster, whose members fail at named requests.
#include "distributed/group/store/etcd_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "distributed/etcd_gateway.h"
#include "distributed/group/rendezvous/roll_call.h"
#include "distributed/group/store/etcd_store.h"
#include "distributed/group/store/sealed_texts.h"
#include "support/errors.h"
#include "support/run_program.h"
#include "support/skip.h"

namespace accrue::distributed {
namespace {

using accrue::testing::error_of;
using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::ContainerEq;
using ::testing::ElementsAre;
using testing::FakeCluster;
using testing::FakeEtcd;
using testing::FakeMember;
using testing::Fault;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr Fault kFaults[] = {Fault::closes,    Fault::loses,      Fault::breaks_off,
                             Fault::no_leader, Fault::malformed,  Fault::of_nothing,
                             Fault::too_long,  Fault::other_page, Fault::silent};

/// A fault in the request of this number alone.
FakeMember::FaultOf at(int number, Fault fault) {
  return [=](int request) { return request == number ? fault : Fault::none; };
}
FakeMember::FaultOf from(int number, Fault fault) {
  return [=](int request) { return request >= number ? fault : Fault::none; };
}

std::shared_ptr<EtcdCluster> cluster_of(const FakeCluster& fake, EtcdOptions options = {}) {
  return std::make_shared<EtcdCluster>(fake.places(), "accrue/a run/", 0, options);
}
EtcdClient client_of(const FakeCluster& fake) { return EtcdClient(cluster_of(fake)); }

/// Nothing depends on how long an answer takes, except after a fault that gives none.
EtcdOptions options_for(Fault fault) {
  return {.attempt = fault == Fault::silent ? 100ms : 60'000ms};
}

/// The answers that a client read, in the order of its calls.
using Script = std::vector<std::string>;

std::string shown(const std::optional<std::string>& text) { return text.value_or("none"); }

/// Every call of a client. A call that counts twice, or does not count, changes what is read later.
Script script_of(EtcdClient& client) {
  Script read{std::to_string(client.has("a"))};
  client.set("a", "one");
  read.push_back(std::to_string(client.has("a")));
  read.push_back(shown(client.get("a")));
  read.push_back(shown(client.compare_set("a", "one", "two")));
  read.push_back(shown(client.compare_set("a", "one", "three")));
  read.push_back(shown(client.compare_set("b", "", "new")));
  read.push_back(shown(client.compare_set("b", "", "newer")));
  read.push_back(shown(client.compare_set("c", "there", "never")));
  for (const int value : {1, 1, 5, -2}) read.push_back(std::to_string(client.add("n", value)));
  client.set("a", "four");
  read.push_back(shown(client.get("a")));
  return read;
}
const Script kRead{"0",     "1", "one", "two", "two", "new", "new",
                   "there", "1", "2",   "7",   "5",   "four"};

class NeedsHttp : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      HttpClient();
    } catch (const Error&) {
      accrue::testing::missing_in_build("this build has no libcurl (libcurl4-openssl-dev)");
    }
  }
};

class EtcdClientTest : public NeedsHttp {};
class EtcdStoreTest : public NeedsHttp {};
class OpenStoreTest : public NeedsHttp {};

TEST_F(EtcdClientTest, ReadsAndWritesAsOtherStoresDo) {
  const FakeCluster fake;
  EtcdClient client = client_of(fake);
  EXPECT_THAT(script_of(client), ContainerEq(kRead));
  EXPECT_TRUE(fake.etcd.all_have_a_lease());
  EXPECT_TRUE(client.remove("a"));
  EXPECT_FALSE(client.remove("a"));
  EXPECT_FALSE(client.has("a"));
  EXPECT_EQ(client.get("a"), std::nullopt);
  EXPECT_EQ(client.own_address(), "127.0.0.1");
}

/// The first member has each fault in each of its requests in turn.
TEST_F(EtcdClientTest, AnyFaultOfAMemberInAnyRequestChangesNothing) {
  constexpr int many = 100;
  for (const Fault fault : kFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    int number = 1;
    for (int faults = 1; faults > 0 && number < many; ++number) {
      const FakeCluster fake(at(number, fault));
      EtcdClient client(cluster_of(fake, options_for(fault)));
      EXPECT_THAT(script_of(client), ContainerEq(kRead)) << "request " << number;
      faults = fake.members[0]->faults();
    }
    // Its short attempts may find the other members too slow, and leave the first one or come back.
    if (fault != Fault::silent) {
      EXPECT_GT(number, static_cast<int>(kRead.size())) << "each request of the script had it";
    }
    EXPECT_LT(number, many);
  }
}

TEST_F(EtcdClientTest, AMemberThatIsLostForGoodIsLeft) {
  for (const Fault fault : kFaults)
    for (const int number : {1, 7}) {
      const FakeCluster fake(from(number, fault));
      EtcdClient client(cluster_of(fake, options_for(fault)));
      EXPECT_THAT(script_of(client), ContainerEq(kRead)) << static_cast<int>(fault);
      if (fault == Fault::silent) continue;  // other members may be too slow for it
      EXPECT_GE(fake.members[0]->faults(), 1);
      // libcurl sends a request once more if a connection that it used before ends without an
      // answer.
      EXPECT_LE(fake.members[0]->faults(), 2) << "it is not asked again and again";
    }
}

TEST_F(EtcdClientTest, AMemberWhoseProcessEndedIsLeft) {
  const FakeCluster fake;
  EtcdClient client = client_of(fake);
  client.set("a", "one");
  EXPECT_EQ(client.get("a"), "one");
  fake.members[0]->stop();
  EXPECT_EQ(client.get("a"), "one");
  fake.members[1]->stop();
  EXPECT_EQ(client.get("a"), "one");
}

/// The control of the tests above: without the marks, an answer that is lost counts twice.
TEST_F(EtcdClientTest, ASumWhoseAnswerIsLostWouldCountTwiceWithoutAMark) {
  FakeEtcd etcd;
  const std::string add = add_request("n", 0, "mark", "1", 0);
  EXPECT_TRUE(added_in(etcd.answer(kTransactionPath, add).body).is_put);
  const Added again = added_in(etcd.answer(kTransactionPath, add).body);
  EXPECT_FALSE(again.is_put);
  EXPECT_EQ(again.mark.value().value, "1");
  const std::string other = add_request("n", again.found.value().revision, "another mark", "2", 0);
  EXPECT_TRUE(added_in(etcd.answer(kTransactionPath, other).body).is_put) << "it counts again";
}

TEST_F(EtcdClientTest, AComparisonFindsItsOwnValueAfterALostAnswer) {
  // The first request renews the lease, the second one makes it.
  const FakeCluster fake(at(3, Fault::loses));
  EtcdClient first = client_of(fake), second = client_of(fake);
  EXPECT_EQ(first.compare_set("a", "", "the first's"), "the first's");
  EXPECT_EQ(fake.members[0]->faults(), 1);
  EXPECT_EQ(second.compare_set("a", "", "the second's"), "the first's");
  EXPECT_EQ(fake.etcd.puts().size(), 1U);
}

TEST_F(EtcdClientTest, ThreadsCountEachOnce) {
  constexpr int threads = 4, times = 10;
  const FakeCluster fake([](int request) { return request % 3 == 0 ? Fault::loses : Fault::none; });
  std::vector<std::future<void>> adding;
  for (int i = 0; i < threads; ++i)
    adding.push_back(std::async(std::launch::async, [&] {
      EtcdClient client = client_of(fake);
      for (int n = 0; n < times; ++n) client.add("n", 1);
    }));
  for (std::future<void>& one : adding) one.get();
  EXPECT_EQ(client_of(fake).add("n", 0), threads * times);
  EXPECT_GT(fake.members[0]->faults(), 0);
}

TEST_F(EtcdClientTest, ANumberThatIsNoneIsNamed) {
  const FakeCluster fake;
  EtcdClient client = client_of(fake);
  client.set("n", "no number");
  EXPECT_THAT([&] { client.add("n", 1); },
              ::testing::ThrowsMessage<std::runtime_error>(HasSubstr("'n'")));
}

TEST_F(EtcdClientTest, WithoutALeaderItWaitsForOne) {
  FakeEtcd etcd;
  std::atomic<int> asked = 0;
  constexpr int election = 20;
  const auto until_elected = [&](int) {
    return ++asked <= election ? Fault::no_leader : Fault::none;
  };
  FakeMember one(etcd, until_elected), other(etcd, until_elected);
  EtcdClient client(
      std::make_shared<EtcdCluster>(std::vector{one.place(), other.place()}, "accrue/a run/", 1));
  EXPECT_THAT(script_of(client), ContainerEq(kRead));
  EXPECT_GE(one.faults() + other.faults(), election);
}

TEST_F(EtcdClientTest, AnErrorNamesEachMemberAndItsReason) {
  FakeEtcd etcd;
  FakeMember leaderless(etcd, from(1, Fault::no_leader)), other(etcd, from(1, Fault::other_page)),
      gone(etcd);
  gone.stop();
  EtcdClient client(
      std::make_shared<EtcdCluster>(std::vector{leaderless.place(), other.place(), gone.place()},
                                    "accrue/a run/", 0, EtcdOptions{.patience = 300ms}));
  for (int times = 0; times < 2; ++times)
    EXPECT_THAT(error_of([&] { client.has("a"); }, Error::Kind::runtime),
                AllOf(HasSubstr(leaderless.place_in_words() + " (etcdserver: no leader)"),
                      HasSubstr(other.place_in_words() + " (an answer that is not etcd's: HTTP"),
                      HasSubstr(gone.place_in_words() + " ("), HasSubstr("Failed to connect"),
                      HasSubstr("etcdctl endpoint status")));
}

TEST_F(EtcdClientTest, WhatEveryMemberWouldRefuseIsAskedOnce) {
  const FakeCluster fake(from(1, Fault::no_space));
  EtcdClient client = client_of(fake);
  EXPECT_THROW(client.has("a"), EtcdRefusal);
  EXPECT_EQ(fake.members[0]->requests(), 1);
  EXPECT_EQ(fake.members[1]->requests() + fake.members[2]->requests(), 0);
  EXPECT_FALSE(client.has("a")) << "the next call asks another member";
}

TEST_F(EtcdClientTest, AValueThatIsTooLongIsLeftAndTheClientGoesOn) {
  FakeEtcd etcd;
  std::atomic<bool> is_long = false;
  const auto long_then = [&](int) { return is_long ? Fault::too_long : Fault::none; };
  FakeMember one(etcd, long_then), other(etcd, long_then);
  EtcdClient client(
      std::make_shared<EtcdCluster>(std::vector{one.place(), other.place()}, "accrue/a run/", 0));
  const std::string longest(EtcdClient::kLongestWritten, 'x');
  client.set("longest", longest);
  EXPECT_EQ(client.get("longest"), longest);
  is_long = true;
  EXPECT_EQ(client.get("longest"), std::nullopt);
  EXPECT_EQ(client.compare_set("longest", "", "mine"), std::nullopt);
  is_long = false;
  EXPECT_EQ(client.get("longest"), longest);
  EXPECT_THAT(usage_message([&] { client.set("mine", longest + "x"); }),
              AllOf(HasSubstr("mine"), HasSubstr(std::to_string(longest.size()))));
}

/// What is set while another value is on its way is written after that, the last one alone.
TEST_F(EtcdClientTest, WritesKeepTheirOrderAndSkipWhatIsReplacedAtOnce) {
  FakeEtcd etcd;
  std::promise<void> go;
  std::shared_future<void> gone(go.get_future());
  std::atomic<bool> is_held = false;
  FakeMember member(etcd, [&](int number) {
    // The first put follows the two requests for the lease.
    if (number == 3) {
      is_held = true;
      gone.wait();
    }
    return Fault::none;
  });
  EtcdClient client(std::make_shared<EtcdCluster>(std::vector{member.place()}, "accrue/a run/", 0,
                                                  EtcdOptions{.attempt = 60s}));
  client.set("place", "1");
  accrue::testing::wait_until([&] { return is_held.load(); });
  for (const char* value : {"2", "3"}) client.set("place", value);
  client.set("complete", "4");
  client.set("place", "5");
  go.set_value();
  EXPECT_EQ(client.get("place"), "5");
  EXPECT_THAT(etcd.puts(), ElementsAre("MQ==", "Mw==", "NA==", "NQ=="));
}

TEST_F(EtcdClientTest, AWriteThatFailsIsReportedByTheNextCall) {
  FakeEtcd etcd;
  FakeMember gone(etcd);
  gone.stop();
  EtcdClient client(std::make_shared<EtcdCluster>(std::vector{gone.place()}, "accrue/a run/", 0,
                                                  EtcdOptions{.patience = 200ms}));
  client.set("a", "one");
  EXPECT_THAT(error_of([&] { client.has("a"); }, Error::Kind::runtime),
              HasSubstr(gone.place_in_words()));
}

TEST_F(EtcdClientTest, KeysHaveTheLeaseOfTheRunWhichAnyRankRenews) {
  const FakeCluster fake;
  const EtcdOptions options{.lease = std::chrono::seconds(77), .renew_every = 0ms};
  EtcdClient one(cluster_of(fake, options)), other(cluster_of(fake, options));
  one.set("a", "one");
  other.set("b", "two");
  EXPECT_TRUE(one.has("a"));
  EXPECT_TRUE(other.has("b"));
  ASSERT_EQ(fake.etcd.leases().size(), 1U) << "a rank's keys stay when it is gone";
  EXPECT_EQ(fake.etcd.leases().begin()->second, "77");
  EXPECT_EQ(fake.etcd.renewals(), 2);
  one.set("a", "three");
  EXPECT_EQ(one.get("a"), "three");
  EXPECT_EQ(fake.etcd.renewals(), 3);
  const auto lease = [](const char* folder) {
    return EtcdCluster(std::vector<Place>(1), folder, 0).lease();
  };
  EXPECT_NE(lease("accrue/a run/"), lease("accrue/another run/"));
  EXPECT_EQ(std::to_string(lease("accrue/a run/")), fake.etcd.leases().begin()->first);
}

TEST_F(EtcdClientTest, ARunWhoseLeaseEndedGoesOnWithAnother) {
  FakeCluster fake;
  EtcdClient client = client_of(fake);
  client.set("a", "one");
  EXPECT_TRUE(client.has("a"));
  fake.etcd.end_leases();
  EXPECT_FALSE(client.has("a"));
  client.set("a", "two");
  EXPECT_EQ(client.get("a"), "two");
  fake.etcd.end_leases();
  EXPECT_EQ(client.compare_set("a", "", "three"), "three");
  fake.etcd.end_leases();
  EXPECT_EQ(client.add("n", 2), 2);
  EXPECT_TRUE(fake.etcd.all_have_a_lease());
}

TEST_F(EtcdStoreTest, WaitsForKeysAndNamesTheOneThatDoesNotCome) {
  const FakeCluster fake(at(4, Fault::loses));
  const auto store = c10::make_intrusive<EtcdStore>(std::make_shared<EtcdClient>(cluster_of(fake)),
                                                    std::chrono::milliseconds(60s));
  auto waiting = std::async(std::launch::async, [&] { store->wait({"a", "b"}); });
  EtcdClient writer = client_of(fake);
  writer.set("b", "two");
  writer.set("a", "one");
  waiting.get();
  EXPECT_TRUE(store->check({"a", "b"}));
  EXPECT_FALSE(store->check({"a", "c"}));
  EXPECT_EQ(store->get_to_str("a"), "one");
  EXPECT_EQ(store->add("n", 3), 3);
  EXPECT_EQ(store->clone()->add("n", 4), 7);
  EXPECT_TRUE(store->deleteKey("n"));
  EXPECT_THAT(
      [&] {
        store->wait({"a", "c"}, 1ms);
      },
      ::testing::ThrowsMessage<std::runtime_error>(HasSubstr("'c'")));
  EXPECT_EQ(fake.members[0]->faults(), 1);
}

TEST_F(EtcdStoreTest, RanksFindTheirStartWhateverAMemberDoes) {
  for (const Fault fault : {Fault::loses, Fault::closes, Fault::no_leader}) {
    const FakeCluster fake([&](int number) { return number % 5 == 0 ? fault : Fault::none; });
    std::vector<RollCall> ranks;
    for (int rank = 0; rank < 3; ++rank)
      ranks.push_back({std::make_shared<EtcdClient>(cluster_of(fake)), rank, 3, "a run"});
    std::vector<std::optional<std::string>> names(3);
    // What is set is written by another thread.
    accrue::testing::wait_until([&] {
      for (std::size_t rank = 0; rank < 3; ++rank) names[rank] = ranks[rank].poll().start;
      return std::ranges::all_of(names, [](const auto& name) { return name.has_value(); });
    });
    EXPECT_EQ(names[1], names[0]);
    EXPECT_EQ(names[2], names[0]);
    EXPECT_GT(fake.members[0]->faults(), 0);
  }
}

TEST_F(EtcdStoreTest, TheFirstOfTheRunDecidesWhateverStrangersWrote) {
  const FakeCluster fake(at(5, Fault::loses));
  const auto texts = [&] {
    return SealedTexts(std::make_shared<EtcdClient>(cluster_of(fake)), "accrue/0",
                       TextSeal("a token of some length", "run"));
  };
  client_of(fake).set("accrue/0/forged", "the end");
  const SealedTexts first = texts(), second = texts();
  for (const char* key : {"untouched", "forged"}) {
    EXPECT_EQ(first.decide(key, "the first's"), "the first's") << key;
    EXPECT_EQ(second.decide(key, "the second's"), "the first's") << key;
  }
  EXPECT_EQ(fake.members[0]->faults(), 1);
}

Launch launch_at(const std::string& url) {
  return {.rank = 0, .world = 2, .store = url, .run_id = "a run", .how = Launcher::torchrun};
}

TEST_F(OpenStoreTest, TakesAnEtcdClusterByItsUrl) {
  const FakeCluster fake(from(1, Fault::no_leader));
  const Launch launch = launch_at(fake.url());
  WaitingNote note(launch, 60s, nullptr);
  const OpenStore store = open_store(launch, 60s, note);
  EXPECT_FALSE(store.is_hosted_here);
  EXPECT_EQ(store.place, fake.url());
  store.notes->set("a", "one");
  EXPECT_TRUE(store.notes->has("a"));
  EXPECT_EQ(store.heartbeat->get("a"), "one");
  EXPECT_EQ(store.engines->get_to_str("a"), "one");
  EXPECT_THAT(store.why_gone(), HasSubstr(fake.members[0]->place_in_words()));
}

TEST(EtcdClusterTest, KeepsWhatAMemberAnsweredBeforeTheDeadline) {
  EtcdCluster cluster({{.host = "127.0.0.1", .port = 1}}, "accrue/run/", 0);
  cluster.leave(0, "timed out after 2 ms", /*keeps_earlier=*/true);
  EXPECT_THAT(cluster.failures(), HasSubstr("timed out")) << "nothing else is known of it";
  cluster.leave(0, "no leader");
  cluster.leave(0, "timed out after 2 ms", /*keeps_earlier=*/true);
  EXPECT_THAT(cluster.failures(), HasSubstr("no leader"));
}

TEST_F(OpenStoreTest, MembersThatDoNotAnswerAreNamedInTime) {
  const FakeCluster fake(from(1, Fault::no_leader));
  for (const int member : {1, 2}) fake.members[static_cast<std::size_t>(member)]->stop();
  const Launch launch = launch_at(fake.url());
  std::vector<std::string> told;
  WaitingNote note(launch, 400ms, [&](const std::string& text) { told.push_back(text); });
  EXPECT_THAT(error_of([&] { open_store(launch, 400ms, note); }, Error::Kind::runtime),
              AllOf(HasSubstr(fake.url()), HasSubstr("no leader"), HasSubstr("Failed to connect"),
                    HasSubstr("etcdctl")));
  EXPECT_THAT(told, ElementsAre(HasSubstr("waiting for their store")));
}

TEST_F(OpenStoreTest, MembersThatRefuseAreNoReasonToWait) {
  const FakeCluster fake(from(1, Fault::no_space));
  const Launch launch = launch_at(fake.url());
  WaitingNote note(launch, 60s, nullptr);
  EXPECT_THAT(usage_message([&] { open_store(launch, 60s, note); }),
              AllOf(HasSubstr(fake.url()), HasSubstr("database space exceeded")));
}

TEST_F(OpenStoreTest, ATokenIsNeededWhereAMemberIsReachedFromOtherMachines) {
  for (const char* url : {"etcd://10.0.0.1:2379", "etcd://127.0.0.1:2379,10.0.0.1:2379"}) {
    const Launch launch = launch_at(url);
    WaitingNote note(launch, 1s, nullptr);
    EXPECT_THAT(
        usage_message([&] { open_store(launch, 1s, note); }),
        AllOf(HasSubstr("ACCRUE_RUN_TOKEN"), HasSubstr("a member of ACCRUE_STORE, '10.0.0.1'")));
  }
}

TEST_F(OpenStoreTest, AMemberThatIsNoAddressIsNamedByItsVariable) {
  const Launch launch = launch_at("etcd://no-such-host.invalid:2379");
  WaitingNote note(launch, 1s, nullptr);
  EXPECT_THAT(usage_message([&] { open_store(launch, 1s, note); }),
              AllOf(HasSubstr("each member of ACCRUE_STORE"), HasSubstr("no-such-host.invalid"),
                    ::testing::Not(HasSubstr("MASTER_ADDR"))));
}

/// Whole ranks, whose store loses a member while they use it.
class RanksWithEtcd : public NeedsHttp {
 protected:
  using Results = std::vector<accrue::testing::Program::Result>;

  static Results run(const FakeCluster& fake, const std::vector<std::string>& words, int world) {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    const std::filesystem::path folder =
        std::filesystem::path(::testing::TempDir()) /
        (std::string("accrue_") + test.name() + "_" + std::to_string(::getpid()));
    Results results = accrue::testing::run_ranks(folder, world, world, [&](int) {
      std::vector<std::string> command{"/usr/bin/env",        "-u",
                                       "MASTER_ADDR",         "-u",
                                       "MASTER_PORT",         "ACCRUE_STORE=" + fake.url(),
                                       "ACCRUE_RUN_ID=a run", accrue::testing::rank_program()};
      command.insert(command.end(), words.begin(), words.end());
      return command;
    });
    std::filesystem::remove_all(folder);
    return results;
  }
};

TEST_F(RanksWithEtcd, CollectivesGiveWhatTheyGiveWithAnyStore) {
  for (const int number : {1, 20, 60}) {
    const FakeCluster fake(from(number, Fault::closes));
    for (const auto& result : run(fake, {"collectives"}, 3)) {
      ASSERT_EQ(result.status, 0) << result.errors;
      EXPECT_EQ(accrue::testing::numbers_of(result.output)["Double"],
                (std::vector<double>{30, 33, 36, 39, 42}));
      EXPECT_THAT(result.output, HasSubstr("[from 0.000000] [from 1.000000] [from 2.000000]"));
    }
    EXPECT_GT(fake.members[0]->faults(), 0) << number;
    EXPECT_TRUE(fake.etcd.all_have_a_lease());
  }
}

/// With a store that rank 0 hosts, they would all end.
TEST_F(RanksWithEtcd, GoOnWithoutTheFirstOne) {
  const FakeCluster fake(from(100, Fault::no_leader));
  constexpr int killed = 128 + 9;
  const Results results = run(fake, {"dying", "0"}, 3);
  EXPECT_EQ(results[0].status, killed);
  for (const int rank : {1, 2}) {
    const auto& result = results[static_cast<std::size_t>(rank)];
    ASSERT_EQ(result.status, 0) << result.errors;
    auto numbers = accrue::testing::numbers_of(result.output);
    EXPECT_THAT(numbers["former"], ElementsAre(1, 2));
    EXPECT_THAT(numbers["renewed"], ElementsAre(rank - 1, 2));
  }
}

}  // namespace
}  // namespace accrue::distributed
