#include "accrue/distributed/launch.h"

#include <unistd.h>

#include <charconv>
#include <limits>
#include <vector>

#include "accrue/core/error.h"
#include "distributed/group/launch/master_addr.h"
#include "distributed/group/launch/run_id.h"
#include "distributed/group/launch/run_token.h"
#include "distributed/group/launch/store_url.h"

namespace accrue::distributed {
namespace {

constexpr const char* kReadEnvironment = "read the launcher's environment";
constexpr const char* kThisMachine = "127.0.0.1";
constexpr int kHighestPort = std::numeric_limits<std::uint16_t>::max();

/// A launcher's variables, by their names.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(std::string_view name) const { return environment_.contains(name); }

  std::string text(std::string_view name) const { return environment_.find(name)->second; }
  std::string text_or(std::string_view name, const char* otherwise) const {
    return has(name) ? text(name) : otherwise;
  }
  std::string shown(std::string_view name) const { return std::string(name) + "=" + text(name); }

  int number(std::string_view name, int low, int high) const {
    const std::string value = text(name);
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < low || number > high)
      throw usage_error(kReadEnvironment,
                        std::string(name) + " to be a whole number from " + std::to_string(low) +
                            " to " + std::to_string(high),
                        "'" + value + "'", "starting with torchrun, mpirun or srun");
    return number;
  }

  int number_or(std::string_view name, int low, int high, int otherwise) const {
    return has(name) ? number(name, low, high) : otherwise;
  }

  void require(const std::vector<std::string>& names, const char* suggestion) const {
    std::vector<std::string> there, missing;
    for (const std::string& name : names) (has(name) ? there : missing).push_back(name);
    if (!missing.empty())
      throw usage_error(kReadEnvironment, joined(missing) + " beside " + joined(there), "none",
                        suggestion);
  }

 private:
  static std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  const Environment& environment_;
};

constexpr int kMost = std::numeric_limits<int>::max();

int world_of(const Variables& variables, std::string_view name) {
  return variables.number(name, 1, kMost);
}

int rank_of(const Variables& variables, std::string_view name, int world) {
  return variables.number(name, 0, world - 1);
}

struct Names {
  const char *rank, *world;
};

/// A launch by `how`, with its rank and world from the variables with these names.
Launch place_among_ranks(const Variables& variables, Launcher how, Names names) {
  Launch launch{.how = how};
  launch.world = world_of(variables, names.world);
  launch.rank = rank_of(variables, names.rank, launch.world);
  launch.stated_by = variables.shown(names.rank) + " and " + variables.shown(names.world);
  return launch;
}

std::uint16_t port_of(const Variables& variables, int otherwise) {
  return static_cast<std::uint16_t>(variables.number_or("MASTER_PORT", 1, kHighestPort, otherwise));
}

/// One launcher inside another is two worlds, unless torchrun's variables describe a single one.
void check_agree(const Variables& variables, const Launch& launch, Names other) {
  if (!variables.has(other.rank) || !variables.has(other.world)) return;
  const auto differ = [&](const char* ours, int value, const char* theirs) {
    if (variables.text(theirs) == std::to_string(value)) return;
    throw usage_error(kReadEnvironment, std::string(ours) + " and " + theirs + " to agree",
                      std::to_string(value) + " and " + variables.text(theirs),
                      std::string("unsetting ") + ours + ", or starting through torchrun");
  };
  differ("WORLD_SIZE", launch.world, other.world);
  differ("RANK", launch.rank, other.rank);
}

Launch from_torchrun(const Variables& variables) {
  variables.require({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
                    "torchrun --no-python, or setting all of them");
  Launch launch = place_among_ranks(variables, Launcher::torchrun, {"RANK", "WORLD_SIZE"});
  launch.local_rank = variables.number_or("LOCAL_RANK", 0, launch.world - 1, 0);
  launch.local_world = variables.number_or("LOCAL_WORLD_SIZE", 1, launch.world, 1);
  launch.master_port = static_cast<std::uint16_t>(variables.number("MASTER_PORT", 1, kHighestPort));
  launch.agent_hosts_store = variables.has("TORCHELASTIC_USE_AGENT_STORE") &&
                             variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  // torchrun's agent may name its only machine by an outer interface.
  const bool is_on_this_machine = launch.agent_hosts_store && launch.local_world == launch.world;
  launch.master_addr = is_on_this_machine ? kThisMachine : variables.text("MASTER_ADDR");
  launch.run_id = run_id_of_torchrun(variables.text_or("TORCHELASTIC_RUN_ID", ""));
  if (variables.has("TORCHELASTIC_RUN_ID")) return launch;
  check_agree(variables, launch, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  if (variables.has("SLURM_STEP_ID"))
    check_agree(variables, launch, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"});
  return launch;
}

Launch from_mpirun(const Variables& variables) {
  variables.require({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, "starting with mpirun");
  Launch launch = place_among_ranks(variables, Launcher::mpirun,
                                    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  launch.local_rank =
      variables.number_or("OMPI_COMM_WORLD_LOCAL_RANK", 0, launch.world - 1, launch.rank);
  const int on_this_machine =
      variables.number_or("OMPI_COMM_WORLD_LOCAL_SIZE", 1, launch.world, launch.world);
  if (!variables.has("MASTER_ADDR") && on_this_machine != launch.world)
    throw usage_error(kReadEnvironment, "MASTER_ADDR where mpirun uses several machines", "none",
                      "mpirun -x MASTER_ADDR=<a machine that all reach, which runs rank 0>");
  launch.master_addr = variables.has("MASTER_ADDR") ? variables.text("MASTER_ADDR") : kThisMachine;
  // Open MPI 4 has both, and two containers with separate process numbers may have one namespace.
  launch.run_id = run_id_of_mpirun(variables.text_or("PMIX_NAMESPACE", ""),
                                   variables.text_or("OMPI_MCA_orte_precondition_transports", ""));
  launch.master_port = port_of(variables, port_of_mpirun(launch.run_id));
  return launch;
}

Launch from_srun(const Variables& variables) {
  variables.require({"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                    "starting with srun");
  Launch launch =
      place_among_ranks(variables, Launcher::srun, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"});
  launch.local_rank = variables.number_or("SLURM_LOCALID", 0, launch.world - 1, 0);
  if (variables.has("MASTER_ADDR")) {
    launch.master_addr = variables.text("MASTER_ADDR");
  } else {
    variables.require({"SLURM_STEP_ID", "SLURM_STEP_NODELIST"},
                      "setting MASTER_ADDR to the machine that runs rank 0");
    const std::string nodes = variables.text("SLURM_STEP_NODELIST");
    const bool is_one = nodes.find_first_of("[,") == std::string::npos;
    launch.master_addr = is_one ? kThisMachine : first_node(nodes);
  }
  const SlurmStep step{.cluster = variables.text_or("SLURM_CLUSTER_NAME", ""),
                       .job = variables.text_or("SLURM_JOB_ID", ""),
                       .step = variables.text("SLURM_STEP_ID")};
  launch.run_id = run_id_of_srun(step);
  launch.master_port = port_of(variables, port_of_srun(step));
  return launch;
}

Launch from_launcher(const Variables& variables) {
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) return from_torchrun(variables);
  if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE"))
    return from_mpirun(variables);
  if (variables.has("SLURM_STEP_ID")) return from_srun(variables);
  return {};
}

/// The environment, in which ACCRUE_STORE takes the place of the address of a store.
Environment with_address_of_store(Environment environment) {
  const auto url = environment.find(kStore);
  if (url == environment.end() || url->second.empty()) return environment;
  const std::vector<Place> members = members_of(url->second);
  const Place& member = outer_member(members);
  environment.insert_or_assign("MASTER_ADDR", member.host);
  environment.insert_or_assign("MASTER_PORT", std::to_string(member.port));
  environment.erase("TORCHELASTIC_USE_AGENT_STORE");
  return environment;
}

/// An engine may hold the stores of many runs.
void require_run_id(const Launch& launch) {
  if (launch.store.empty() || !launch.run_id.empty()) return;
  throw usage_error(kReadEnvironment,
                    std::string(kRunId) + " beside " + kStore + ", which may serve other runs",
                    "none, and a launcher that has no name for the run",
                    "export ACCRUE_RUN_ID=<a name for this run>, the same one on all machines");
}

}  // namespace

Launch launch_of(const Environment& given) {
  const Environment environment = with_address_of_store(given);
  const Variables variables(environment);
  Launch launch = from_launcher(variables);
  if (launch.world > 1) check_master_addr(launch.master_addr);
  launch.store = variables.text_or(kStore, "");
  if (variables.has(kRunId)) launch.run_id = variables.text(kRunId);
  if (variables.has("GLOO_SOCKET_IFNAME")) launch.interface = variables.text("GLOO_SOCKET_IFNAME");
  if (variables.has(kRunToken)) {
    launch.run_token = variables.text(kRunToken);
    check_run_token(launch.run_token);
  }
  if (launch.world > 1) require_run_id(launch);
  return launch;
}

Environment this_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string first_node(std::string_view node_list) {
  const std::size_t end = node_list.find_first_of("[,");
  const std::string prefix(node_list.substr(0, end));
  if (end == std::string_view::npos || node_list[end] == ',') return prefix;
  const std::string_view numbers = node_list.substr(end + 1);
  return prefix + std::string(numbers.substr(0, numbers.find_first_of("-,]")));
}

}  // namespace accrue::distributed
