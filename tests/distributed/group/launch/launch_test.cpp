#include "accrue/distributed/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "support/errors.h"

namespace accrue::distributed {
namespace {

using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Environment kTorchrun{{"RANK", "3"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "1"},
                            {"MASTER_ADDR", "10.0.0.1"},
                            {"MASTER_PORT", "29400"}};
const Environment kMpirun{{"OMPI_COMM_WORLD_RANK", "2"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Environment kSrun{{"SLURM_STEP_ID", "0"},
                        {"SLURM_PROCID", "5"},
                        {"SLURM_STEP_NUM_TASKS", "8"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_STEP_NODELIST", "gpu[03-05,9]"},
                        {"SLURM_JOB_ID", "30007"}};

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const char* name) {
  environment.erase(name);
  return environment;
}

TEST(Launch, NoVariablesAreOneProcess) {
  const Launch launch = launch_of({{"HOME", "/"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ(launch.world, 1);
  EXPECT_EQ(launch.how, Launcher::none);
}

TEST(Launch, ReadsTorchrun) {
  const Launch launch = launch_of(kTorchrun);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.world, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.master_addr, "10.0.0.1");
  EXPECT_EQ(launch.master_port, 29400);
  EXPECT_EQ(launch.how, Launcher::torchrun);
  EXPECT_FALSE(launch.agent_hosts_store);
}

TEST(Launch, ConnectsToTheStoreOfTorchrunsAgent) {
  const Launch launch = launch_of(
      with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"GLOO_SOCKET_IFNAME", "eth1"}}));
  EXPECT_TRUE(launch.agent_hosts_store);
  EXPECT_EQ(launch.interface, "eth1");
}

TEST(Launch, TheAgentsOnlyMachineMeetsOnItsLoopbackInterface) {
  const Environment agent = with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(launch_of(with(agent, {{"LOCAL_WORLD_SIZE", "4"}})).master_addr, "127.0.0.1");
  EXPECT_EQ(launch_of(with(agent, {{"LOCAL_WORLD_SIZE", "2"}})).master_addr, "10.0.0.1");
  EXPECT_EQ(launch_of(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "4"}})).master_addr, "10.0.0.1")
      << "where rank 0 hosts the store it is where it was told to";
}

TEST(Launch, ReadsTheRunToken) {
  const std::string shortest = "0123456789abcdef";
  EXPECT_EQ(launch_of(kTorchrun).run_token, "");
  EXPECT_EQ(launch_of(with(kTorchrun, {{"ACCRUE_RUN_TOKEN", shortest}})).run_token, shortest);
  for (const std::string& token : {shortest.substr(1), std::string()})
    EXPECT_THAT(usage_message([&] {
                  launch_of(with(kTorchrun, {{"ACCRUE_RUN_TOKEN", token}}));
                }),
                AllOf(HasSubstr("16 characters"), HasSubstr(std::to_string(token.size())),
                      HasSubstr("openssl rand"), Not(HasSubstr("0123456789"))));
}

TEST(Launch, ReadsMpirun) {
  const Launch launch = launch_of(kMpirun);
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.world, 4);
  EXPECT_EQ(launch.master_addr, "127.0.0.1");
  EXPECT_EQ(launch.how, Launcher::mpirun);
}

TEST(Launch, MpirunOnSeveralMachinesNeedsAnAddress) {
  const Environment spread = with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_THAT(usage_message([&] { launch_of(spread); }), HasSubstr("MASTER_ADDR"));
  EXPECT_EQ(launch_of(with(spread, {{"MASTER_ADDR", "one"}, {"MASTER_PORT", "77"}})).master_port,
            77);
}

TEST(Launch, ReadsSrun) {
  const Launch launch = launch_of(kSrun);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.world, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.master_addr, "gpu03");
  EXPECT_EQ(launch.master_port, 15007);
  EXPECT_EQ(launch.how, Launcher::srun);
  EXPECT_EQ(launch_of(with(kSrun, {{"SLURM_STEP_NODELIST", "gpu03"}})).master_addr, "127.0.0.1");
}

TEST(Launch, TheStepsOfAJobHavePortsAndNamesOfTheirOwn) {
  const auto step = [](const char* job, const char* number) {
    return launch_of(with(kSrun, {{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", number}}));
  };
  std::set<int> ports;
  std::set<std::string> names;
  for (int number = 0; number < 1000; ++number) {
    const Launch launch = step("30007", std::to_string(number).c_str());
    EXPECT_TRUE(launch.master_port >= 15000 && launch.master_port < 30000);
    ports.insert(launch.master_port);
    names.insert(launch.run_id);
  }
  EXPECT_EQ(ports.size(), 1000U);
  EXPECT_EQ(names.size(), 1000U);
  EXPECT_NE(step("30007", "0").master_port, step("30008", "0").master_port);
  EXPECT_NE(step("1", "10").run_id, step("11", "0").run_id);
  EXPECT_NE(step("1", "0").run_id,
            launch_of(with(kSrun, {{"SLURM_JOB_ID", "1"}, {"SLURM_CLUSTER_NAME", "a"}})).run_id);
}

TEST(Launch, AShellThatSallocOpensIsAlone) {
  const Launch launch = launch_of(with(kSrun, {{"SLURM_STEP_ID", "4294967290"},
                                               {"SLURM_PROCID", "0"},
                                               {"SLURM_LOCALID", "0"},
                                               {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_EQ(launch.world, 1);
}

TEST(Launch, TwoMpirunsHavePortsAndNamesOfTheirOwn) {
  const auto job = [](const char* name, const char* key) {
    return launch_of(
        with(kMpirun, {{"PMIX_NAMESPACE", name}, {"OMPI_MCA_orte_precondition_transports", key}}));
  };
  const Launch one = job("1231945729", "d662d597-1921"), same = job("1231945729", "d662d597-1921");
  EXPECT_EQ(one.master_port, same.master_port);
  EXPECT_EQ(one.run_id, same.run_id);
  for (const Launch& other : {job("1231945730", "d662d597-1921"), job("1231945729", "0-0")}) {
    EXPECT_NE(other.master_port, one.master_port);
    EXPECT_NE(other.run_id, one.run_id);
  }
  EXPECT_EQ(launch_of(with(kMpirun, {{"MASTER_PORT", "77"}})).master_port, 77);
  EXPECT_EQ(launch_of(kMpirun).run_id, "") << "one that says nothing of its job";
}

TEST(Launch, ARunHasTheNameThatItsUserGivesIt) {
  EXPECT_EQ(launch_of(kTorchrun).run_id, "");
  EXPECT_EQ(launch_of(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "none"}})).run_id, "")
      << "torchrun's default";
  EXPECT_NE(launch_of(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "a"}})).run_id, "");
  for (const Environment& launcher : {kTorchrun, kSrun, kMpirun})
    EXPECT_EQ(launch_of(with(launcher, {{"ACCRUE_RUN_ID", "mine"}})).run_id, "mine");
}

TEST(Launch, NamesTheVariablesThatMakeThisProcessARank) {
  EXPECT_EQ(launch_of(kTorchrun).stated_by, "RANK=3 and WORLD_SIZE=4");
  EXPECT_EQ(launch_of(kSrun).stated_by, "SLURM_PROCID=5 and SLURM_STEP_NUM_TASKS=8");
  EXPECT_EQ(launch_of(kMpirun).stated_by, "OMPI_COMM_WORLD_RANK=2 and OMPI_COMM_WORLD_SIZE=4");
}

TEST(Launch, RefusesAnAddressThatIsNoneWithTheOneThatIsMeant) {
  const struct {
    const char *written, *meant;
  } addresses[] = {{"", "the name or the address"},
                   {" 127.0.0.1 ", "MASTER_ADDR=127.0.0.1"},
                   {"node1\n", "MASTER_ADDR=node1"},
                   {"[::1]", "MASTER_ADDR=::1"},
                   {"[fd00::2]:29511", "MASTER_ADDR=fd00::2 and MASTER_PORT=29511"},
                   {"127.0.0.1:29511", "MASTER_ADDR=127.0.0.1 and MASTER_PORT=29511"},
                   {"tcp://node1:29511/", "MASTER_ADDR=node1 and MASTER_PORT=29511"},
                   {"node1,node2", "the name or the address"},
                   {"node1 node2", "the name or the address"},
                   {"[::1", "the name or the address"},
                   {"node1:port", "the name or the address"},
                   {"-x", "the name or the address"}};
  for (const auto& [written, meant] : addresses)
    for (const Environment& launcher : {kTorchrun, kMpirun, kSrun})
      EXPECT_THAT(usage_message([&, written = written] {
                    launch_of(with(launcher, {{"MASTER_ADDR", written}}));
                  }),
                  AllOf(HasSubstr("MASTER_ADDR to be a host name or an address"),
                        HasSubstr("'" + std::string(written) + "'"),
                        HasSubstr(std::string("try ") + meant)));
  for (const char* good : {"127.0.0.1", "::1", "fe80::1%eth0", "node-1.cluster_a.example", "7"})
    EXPECT_EQ(launch_of(with(kTorchrun, {{"MASTER_ADDR", good}})).master_addr, good);
}

TEST(Launch, OneProcessNeedsNoAddress) {
  EXPECT_EQ(
      launch_of(
          with(kTorchrun,
               {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", ""}}))
          .world,
      1);
}

TEST(Launch, InABatchScriptWithoutSrunAProcessIsAlone) {
  EXPECT_EQ(launch_of(without(kSrun, "SLURM_STEP_ID")).world, 1);
}

TEST(Launch, TorchrunGoesBeforeTheLauncherThatStartedIt) {
  const Environment both = with(kTorchrun, kSrun);
  EXPECT_EQ(launch_of(with(both, {{"TORCHELASTIC_RUN_ID", "x"}})).rank, 3);
  EXPECT_THAT(usage_message([&] { launch_of(both); }),
              AllOf(HasSubstr("WORLD_SIZE and SLURM_STEP_NUM_TASKS"), HasSubstr("4 and 8")));
}

TEST(Launch, NamesWhatIsMissing) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    EXPECT_THAT(usage_message([&] { launch_of(without(kTorchrun, name)); }), HasSubstr(name));
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})
    EXPECT_THAT(usage_message([&] { launch_of(without(kMpirun, name)); }), HasSubstr(name));
  for (const char* name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"})
    EXPECT_THAT(usage_message([&] { launch_of(without(kSrun, name)); }), HasSubstr(name));
}

TEST(Launch, RefusesWhatIsNoNumberInRange) {
  for (const auto& variable : Environment{
           {"RANK", "4"}, {"WORLD_SIZE", "0"}, {"LOCAL_RANK", "-1"}, {"MASTER_PORT", "70000"}})
    EXPECT_THAT(usage_message([&] { launch_of(with(kTorchrun, {variable})); }),
                AllOf(HasSubstr(variable.first), HasSubstr("'" + variable.second + "'")));
}

TEST(Launch, FindsTheFirstOfSlurmsNodes) {
  EXPECT_EQ(first_node("gpu[03-05,9],cpu1"), "gpu03");
  EXPECT_EQ(first_node("cpu[7]"), "cpu7");
  EXPECT_EQ(first_node("one,two"), "one");
  EXPECT_EQ(first_node("alone"), "alone");
}

/// An engine of its own takes the place of the address of a host.
TEST(Launch, TakesTheStoreThatIsNamed) {
  const Environment by_hand{{"RANK", "1"},
                            {"WORLD_SIZE", "3"},
                            {"ACCRUE_RUN_ID", "mine"},
                            {"ACCRUE_STORE", "etcd://127.0.0.1:1234,node-2,[fe80::1]:2380"}};
  const Launch launch = launch_of(by_hand);
  EXPECT_EQ(launch.store, "etcd://127.0.0.1:1234,node-2,[fe80::1]:2380");
  EXPECT_EQ(launch.master_addr, "node-2") << "other machines do not reach the first one";
  EXPECT_EQ(launch.master_port, 2379);
  EXPECT_EQ(launch_of(with(by_hand, {{"ACCRUE_STORE", "etcd://localhost:1/"}})).master_port, 1);
  const Launch agent = launch_of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                  {"TORCHELASTIC_RUN_ID", "job"},
                                                  {"LOCAL_WORLD_SIZE", "4"},
                                                  {"ACCRUE_STORE", "etcd://node-2"}}));
  EXPECT_FALSE(agent.agent_hosts_store);
  EXPECT_EQ(agent.master_addr, "node-2");
  EXPECT_EQ(launch_of(with(kSrun, {{"ACCRUE_STORE", "etcd://node-2"}})).master_addr, "node-2");
  EXPECT_EQ(launch_of(with(kTorchrun, {{"ACCRUE_STORE", ""}})).store, "");
  EXPECT_THAT(usage_message([&] { launch_of(without(by_hand, "ACCRUE_RUN_ID")); }),
              AllOf(HasSubstr("ACCRUE_RUN_ID"), HasSubstr("ACCRUE_STORE")));
}

TEST(Launch, AStoreThatIsNoListOfMembersIsRefusedByName) {
  const auto refused = [](const std::string& url) {
    return usage_message([&] {
      launch_of(with(kTorchrun, {{"ACCRUE_STORE", url}, {"ACCRUE_RUN_ID", "mine"}}));
    });
  };
  for (const char* url :
       {"a:2379", "http://a:2379", "redis://a:1", "etcd://", "etcd://,", "etcd://a:2379,",
        "etcd://a:0", "etcd://a:65536", "etcd://a:x", "etcd://a:", "etcd://a b", "etcd://[::1",
        "etcd://::1", "etcd://[::1]x", "etcd://a/prefix", "etcd://a:2379,a:2379", "etcd://a,a"})
    EXPECT_THAT(refused(url), AllOf(HasSubstr("'" + std::string(url) + "'"),
                                    HasSubstr("ACCRUE_STORE=etcd://HOST:PORT")))
        << url;
  for (const char* url : {"https://a:2379", "etcds://a:2379"})
    EXPECT_THAT(refused(url), HasSubstr("without TLS"));
  EXPECT_THAT(refused("etcd://user:secret@a:2379"),
              AllOf(HasSubstr("without a user and a password"), Not(HasSubstr("secret"))));
}

}  // namespace
}  // namespace accrue::distributed
