#include "accrue/distributed/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace accrue::distributed
